// The machines of a pool as EC2 knows them: found by their tags, and ended.
//
// Thread-safety: as that of QueryApi, which outlives it.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_AWS_EC2_INSTANCES_H_
#define ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_AWS_EC2_INSTANCES_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/aws/query_api.h"
#include "services/autoscaler/providers/node_pool_provider.h"

namespace adaptdl::autoscaler {

// Of the protocol.
inline constexpr char kEc2Version[] = "2016-11-15";

struct Ec2Instance {
  std::string id;
  // "pending", "running", "shutting-down", "terminated", "stopping", "stopped".
  std::string state;
  // Why it is in that state: "Server.SpotInstanceTermination: Spot instance termination". Empty: EC2 says nothing.
  std::string reason = {};
  // Private address. Empty: none, or none yet.
  std::string address = {};
  std::optional<absl::Time> launch_time = std::nullopt;
  // The creation that it came from, its tag.
  std::string creation = {};
};

// Whether EC2 took it back, or it broke: nobody has asked for its end.
bool IsTakenBack(const Ec2Instance& instance);

// As the autoscaler sees it; none: it is gone. A machine that is stopped counts as stopping: nobody starts it again.
std::optional<ProvidedNode> ToProvidedNode(const Ec2Instance& instance);

// A tag and the value that it must have.
using TagFilter = std::pair<std::string, std::string>;

// All that there are, also those that ended within the last hour, by id.
absl::StatusOr<std::vector<Ec2Instance>> ListInstances(aws::QueryApi& ec2,
                                                       const std::vector<TagFilter>& tags);

// At most 100 a call. NOT_FOUND: EC2 does not know one of them, and ends none of that call's.
absl::Status TerminateInstances(aws::QueryApi& ec2, const std::vector<std::string>& ids);
inline constexpr size_t kTerminateBatch = 100;

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_AWS_EC2_INSTANCES_H_
