// An Auto Scaling group of Amazon: what it is and has, and the calls that resize it.
//
// Its size is one number, the desired capacity, which Amazon makes true in its own time: it makes machines that are missing, and ends
// ones of its own choice where there are too many, unless they are protected from that.
//
// Thread-safety: as that of QueryApi, which outlives it.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_AWS_SCALING_GROUP_H_
#define ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_AWS_SCALING_GROUP_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/aws/query_api.h"

namespace adaptdl::autoscaler {

// Of the protocol.
inline constexpr char kAutoScalingVersion[] = "2011-01-01";

// What a machine of a group is to it, by its "lifecycle state".
enum class GroupMembership {
  // It is coming.
  kPending,
  kInService,
  // The group ends it.
  kTerminating,
  // A person has taken it out of service, or is about to.
  kStandby,
};

struct GroupInstance {
  std::string id;
  GroupMembership membership = GroupMembership::kInService;
  // From being ended because the group is too large.
  bool is_protected = false;
};

struct ScalingGroupState {
  int min_size = 0;
  int max_size = 0;
  int desired = 0;
  // Whether machines that it makes are protected from the start.
  bool protects_new = false;
  std::vector<GroupInstance> instances = {};
};

// Why a machine did not come.
struct LaunchFailure {
  std::string why;
  absl::Time time;
};

class ScalingGroup {
 public:
  ScalingGroup(std::string name, aws::QueryApi* api) : name_(std::move(name)), api_(*api) {}

  const std::string& name() const { return name_; }

  // NOT_FOUND: there is no such group. FAILED_PRECONDITION: it is being deleted.
  absl::StatusOr<ScalingGroupState> Describe() const;

  // Of the launch that ended last, if it failed.
  absl::StatusOr<std::optional<LaunchFailure>> LastLaunchFailure() const;

  // Harmless if repeated, as it says all, not what is to change.
  absl::Status SetDesired(int desired) const;

  // Ends a machine, and has no other one made in its place. Not harmless if repeated.
  absl::Status Terminate(const std::string& instance_id) const;

 private:
  const std::string name_;
  aws::QueryApi& api_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_AWS_SCALING_GROUP_H_
