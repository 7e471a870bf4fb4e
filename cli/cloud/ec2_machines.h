// The machines of a cluster as EC2 has them: its head, which is made here, and its workers, which the autoscaler makes; both are
// known by their tags.
//
// With `dry_run`, calls that change something are told and not made; calls that only read are told and made.
//
// Errors: those of aws::QueryApi. Not thread-safe.

#ifndef ADAPTDL_CLI_CLOUD_EC2_MACHINES_H_
#define ADAPTDL_CLI_CLOUD_EC2_MACHINES_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/cloud/cluster_file.h"
#include "libs/aws/query_api.h"

namespace adaptdl::cli {

// The autoscaler's (services/autoscaler/providers/aws), and one of the head alone.
inline constexpr char kClusterTag[] = "adaptdl:cluster";
inline constexpr char kPoolTag[] = "adaptdl:pool";
inline constexpr char kRoleTag[] = "adaptdl:role";
inline constexpr char kHeadRole[] = "head";

struct Machine {
  std::string id = {};
  // "pending", "running", "shutting-down", "terminated", "stopping", "stopped".
  std::string state = {};
  std::string type = {};
  // Empty: none, or none yet.
  std::string private_address = {};
  std::string public_address = {};
  // Empty: of no pool.
  std::string pool = {};
  bool is_head = false;
  std::optional<absl::Time> launch_time = std::nullopt;

  // Whether it costs something, or may again.
  bool is_there() const { return state != "terminated" && state != "shutting-down"; }
};

struct Ec2Options {
  std::string cluster;
  std::string region;
  std::string endpoint;
  bool dry_run = false;
  // Told of each call with `dry_run`: "RunInstances InstanceType=m7i.large ...".
  std::function<void(const std::string&)> tell;
};

class Ec2Machines {
 public:
  // What `world` names outlives it.
  Ec2Machines(Ec2Options options, const aws::World& world);

  // All that are tagged as the cluster's, also those that have ended lately, by id.
  absl::StatusOr<std::vector<Machine>> List();
  // OK: the groups are there, and let somebody in at the head's port. FAILED_PRECONDITION: they let nobody in.
  absl::Status CheckSecurityGroups(const HeadOptions& head);
  // Makes the head; the same token makes it once. Its id; empty with dry_run.
  absl::StatusOr<std::string> RunHead(const HeadOptions& head, const std::string& token,
                                      const std::string& user_data);
  // What its console has shown, up to now. Empty: nothing yet.
  absl::StatusOr<std::string> ConsoleOf(const std::string& id);
  absl::Status Terminate(const std::vector<std::string>& ids);
  // Ids of volumes, and names of launch templates, that are tagged as the cluster's.
  absl::StatusOr<std::vector<std::string>> Volumes();
  absl::StatusOr<std::vector<std::string>> LaunchTemplates();
  absl::Status DeleteLaunchTemplate(const std::string& name);

 private:
  absl::StatusOr<aws::XmlElement> Read(const std::string& action, aws::Parameters parameters);
  // Nothing: it was not made.
  absl::StatusOr<std::optional<aws::XmlElement>> Change(const std::string& action,
                                                        aws::Parameters parameters);
  void Tell(const std::string& action, const aws::Parameters& parameters) const;
  aws::Parameters OfCluster() const;

  const Ec2Options options_;
  aws::QueryApi ec2_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_CLOUD_EC2_MACHINES_H_
