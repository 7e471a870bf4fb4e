#include "services/autoscaler/providers/aws/scaling_group.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/utf8.h"

namespace adaptdl::autoscaler {
namespace {

constexpr size_t kLongestWhy = 300;
// Enough to see past what is still under way.
constexpr char kActivitiesLookedAt[] = "50";

// Absent: the group keeps it for later, or has let it go.
std::optional<GroupMembership> MembershipOf(absl::string_view lifecycle) {
  if (absl::StartsWith(lifecycle, "Pending")) return GroupMembership::kPending;
  if (lifecycle == "InService") return GroupMembership::kInService;
  if (lifecycle == "Standby" || lifecycle == "EnteringStandby") return GroupMembership::kStandby;
  // Terminating, Terminating:Wait, Terminating:Proceed; Terminated.
  if (absl::StartsWith(lifecycle, "Terminat")) return GroupMembership::kTerminating;
  return std::nullopt;
}

ScalingGroupState ReadGroup(const aws::XmlElement& group) {
  ScalingGroupState state;
  state.min_size = group.Integer("MinSize");
  state.max_size = group.Integer("MaxSize");
  state.desired = group.Integer("DesiredCapacity");
  state.protects_new = group.Text("NewInstancesProtectedFromScaleIn") == "true";
  for (const aws::XmlElement& member : group.Items("Instances", "member")) {
    const std::optional<GroupMembership> membership = MembershipOf(member.Text("LifecycleState"));
    if (!membership.has_value()) continue;
    state.instances.push_back({.id = member.Text("InstanceId"),
                               .membership = *membership,
                               .is_protected = member.Text("ProtectedFromScaleIn") == "true"});
  }
  return state;
}

}  // namespace

absl::StatusOr<ScalingGroupState> ScalingGroup::Describe() const {
  const auto answer = api_.Call({.action = "DescribeAutoScalingGroups",
                                 .parameters = {{"AutoScalingGroupNames.member.1", name_}},
                                 .may_repeat = true});
  if (!answer.ok()) return answer.status();
  for (const aws::XmlElement& group :
       answer->Items("DescribeAutoScalingGroupsResult/AutoScalingGroups", "member")) {
    if (group.Text("AutoScalingGroupName") != name_) continue;
    // Only said of a group that goes.
    if (const std::string status = group.Text("Status"); !status.empty())
      return absl::FailedPreconditionError(absl::StrCat("Auto Scaling group ", name_, ": ", status));
    return ReadGroup(group);
  }
  return absl::NotFoundError(absl::StrCat("aws.autoScalingGroup \"", name_,
                                          "\" is not there in this region and account: make it, or name one "
                                          "that is"));
}

absl::StatusOr<std::optional<LaunchFailure>> ScalingGroup::LastLaunchFailure() const {
  const auto answer =
      api_.Call({.action = "DescribeScalingActivities",
                 .parameters = {{"AutoScalingGroupName", name_}, {"MaxRecords", kActivitiesLookedAt}},
                 .may_repeat = true});
  if (!answer.ok()) return answer.status();
  // The newest first.
  for (const aws::XmlElement& activity :
       answer->Items("DescribeScalingActivitiesResult/Activities", "member")) {
    if (!absl::StartsWith(activity.Text("Description"), "Launching")) continue;
    const std::string status = activity.Text("StatusCode");
    if (status == "Successful") return std::nullopt;
    if (status != "Failed") continue;
    LaunchFailure failure;
    failure.why = ToUtf8(activity.Text("StatusMessage"), kLongestWhy);
    if (failure.why.empty()) failure.why = "Amazon does not say why";
    if (!absl::ParseTime(absl::RFC3339_full, activity.Text("StartTime"), &failure.time, nullptr))
      return absl::UnknownError(absl::StrCat("DescribeScalingActivities: StartTime \"",
                                             ToUtf8(activity.Text("StartTime"), 100), "\" is no time"));
    return failure;
  }
  return std::nullopt;
}

absl::Status ScalingGroup::SetDesired(int desired) const {
  return api_
      .Call({.action = "SetDesiredCapacity",
             .parameters = {{"AutoScalingGroupName", name_},
                            {"DesiredCapacity", absl::StrCat(desired)},
                            {"HonorCooldown", "false"}},
             .may_repeat = true})
      .status();
}

absl::Status ScalingGroup::Terminate(const std::string& instance_id) const {
  return api_
      .Call({.action = "TerminateInstanceInAutoScalingGroup",
             .parameters = {{"InstanceId", instance_id}, {"ShouldDecrementDesiredCapacity", "true"}}})
      .status();
}

}  // namespace adaptdl::autoscaler
