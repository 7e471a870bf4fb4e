// A managed instance group of Google Cloud, in one zone: its machines, and the calls that make and end them by their names.
//
// What a call asks for is only begun when it is answered; what becomes of it is said by the machine's entry in the group, or by
// the operation that the answer names.
//
// Thread-safety: as that of RestApi, which outlives it.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_GCP_INSTANCE_GROUP_H_
#define ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_GCP_INSTANCE_GROUP_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/gcp/rest_api.h"
#include "services/autoscaler/providers/gcp/gcp_pool_options.h"

namespace adaptdl::autoscaler {

struct ManagedInstance {
  std::string name;
  // A number. Empty: there is no machine yet.
  std::string id = {};
  // What the group does with it: "NONE", "CREATING", "RECREATING", "DELETING" and others.
  std::string action = {};
  // What the machine is: "PROVISIONING", "STAGING", "RUNNING", "STOPPING", "TERMINATED" and others. Empty: there is none.
  std::string status = {};
  // Why the group's last try to make it failed: "ZONE_RESOURCE_POOL_EXHAUSTED: ...". Empty: it did not.
  std::string failure = {};
};

struct InstanceDetails {
  // Private address. Empty: none.
  std::string address;
  std::optional<absl::Time> create_time;
};

class InstanceGroup {
 public:
  InstanceGroup(const GcpPoolOptions& options, gcp::RestApi* api);

  // NOT_FOUND: there is no such group.
  absl::StatusOr<std::vector<ManagedInstance>> List() const;

  // Begins to make machines of these names; the name of the operation. Harmless if repeated: names are made once, and Google
  // knows the call by `request_id`, a UUID. ALREADY_EXISTS: it has begun before.
  absl::StatusOr<std::string> Create(const std::vector<std::string>& names,
                                     const std::string& request_id) const;

  // Begins to end a machine, and has no other made in its place. Harmless if repeated, or if there is none of that name.
  absl::Status Delete(const std::string& name) const;

  // Why an operation failed. Empty: it has not, or not yet, or nobody knows it any more.
  absl::StatusOr<std::string> FailureOf(const std::string& operation) const;

  absl::StatusOr<InstanceDetails> Describe(const std::string& name) const;

 private:
  absl::StatusOr<nlohmann::json> CallGroup(const gcp::RestCall& call) const;

  const std::string group_name_;
  // "/compute/v1/projects/p/zones/z".
  const std::string zone_path_;
  const std::string group_path_;
  const std::string zone_;
  gcp::RestApi& api_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_GCP_INSTANCE_GROUP_H_
