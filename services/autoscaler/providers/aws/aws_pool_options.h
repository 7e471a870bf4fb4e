// What a pool of machines of Amazon is like: plain settings, which somebody else reads from the pools' file.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_AWS_AWS_POOL_OPTIONS_H_
#define ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_AWS_AWS_POOL_OPTIONS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "adaptdl/v1/node.pb.h"
#include "services/autoscaler/providers/machines/worker_launch.h"

namespace adaptdl::autoscaler {

struct AwsPoolOptions {
  // Names of the cluster and of the pool, which all machines are tagged with. Two clusters of one account differ in the first.
  std::string cluster = "adaptdl";
  std::string pool;
  // Folder for what must survive a restart. The pool's own; created when missing.
  std::string state_dir;
  // "eu-west-1".
  std::string region;
  // URL instead of Amazon's own, of all services: emulators. Empty: Amazon's.
  std::string endpoint = {};

  // An existing Auto Scaling group, which is resized. Empty: machines are made by EC2 Fleet, as what follows says.
  std::string auto_scaling_group = {};

  // At least one, unless the launch template has one. Amazon chooses among them, and among the places below.
  std::vector<std::string> instance_types = {};
  // Where: subnets, or else zones. Both empty: any zone of the default network.
  std::vector<std::string> subnets = {};
  std::vector<std::string> zones = {};
  bool spot = false;
  // Most that a spot machine may cost per hour, in USD. Empty: the price on demand.
  std::string max_price = {};

  // An existing launch template, its id ("lt-...") or its name, in its default version: for the rest of what machines are like.
  // `image` overrides its image, and the worker's start its user data. Empty: one is made of what follows.
  std::string launch_template = {};
  // Id of the machine image. Needed without a launch template.
  std::string image = {};
  // Ids. Empty: the network's default one.
  std::vector<std::string> security_groups = {};
  // Name of a key for SSH. Empty: none.
  std::string key_name = {};
  // Name or ARN of the instance profile that gives machines a role. Empty: they have none.
  std::string instance_profile = {};
  // Size of the root disk in GiB, which is encrypted. 0: as the image says.
  int64_t disk_gib = 0;

  // Of the machines, beside those of the provider. Keys that begin with "adaptdl:" or "aws:" are refused.
  std::map<std::string, std::string> tags = {};
  // How they run the worker. Unused with an Auto Scaling group: its launch template says that.
  WorkerLaunch worker = {};
  // What a node of the pool offers and is labelled with. Absent: unknown until there is one.
  std::optional<v1::Node> node = std::nullopt;

  // How long calls are tried again.
  absl::Duration patience = absl::Seconds(30);
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_AWS_AWS_POOL_OPTIONS_H_
