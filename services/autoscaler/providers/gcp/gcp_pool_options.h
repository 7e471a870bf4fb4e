// What a pool of machines of Google Cloud is like: plain settings, which somebody else reads from the pools' file.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_GCP_GCP_POOL_OPTIONS_H_
#define ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_GCP_GCP_POOL_OPTIONS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "adaptdl/v1/node.pb.h"

namespace adaptdl::autoscaler {

struct GcpPoolOptions {
  std::string pool;
  // Folder for what must survive a restart. The pool's own; created when missing.
  std::string state_dir;
  std::string project;
  // "europe-west4-a".
  std::string zone;
  // Name of the managed instance group, which is there. Its template says what machines are like, and how they run the worker.
  std::string instance_group;
  // URL instead of Google's own. Empty: Google's.
  std::string endpoint = {};
  // What a node of the pool offers and is labelled with. Absent: unknown until there is one.
  std::optional<v1::Node> node = std::nullopt;

  // How long calls are tried again.
  absl::Duration patience = absl::Seconds(30);
};

// INVALID_ARGUMENT names the field, its value and the remedy.
absl::Status CheckGcpPoolOptions(const GcpPoolOptions& options);

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_GCP_GCP_POOL_OPTIONS_H_
