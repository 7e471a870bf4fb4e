#include "libs/kubejobs/hindrance.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/utf8.h"

namespace adaptdl::kubejobs {
namespace {

using kube::At;
using kube::Json;
using kube::TextAt;

constexpr size_t kLongestReason = 1024;

// Reasons of containers that wait. Others are steps on their way.
constexpr struct {
  const char* reason;
  Hindrance::Kind kind;
  v1::EndCause cause;
} kReasons[] = {{"ErrImagePull", Hindrance::Kind::kImage, v1::END_CAUSE_IMAGE},
                {"ImagePullBackOff", Hindrance::Kind::kImage, v1::END_CAUSE_IMAGE},
                {"InvalidImageName", Hindrance::Kind::kImage, v1::END_CAUSE_IMAGE},
                {"ErrImageNeverPull", Hindrance::Kind::kImage, v1::END_CAUSE_IMAGE},
                {"ImageInspectError", Hindrance::Kind::kImage, v1::END_CAUSE_IMAGE},
                {"RegistryUnavailable", Hindrance::Kind::kImage, v1::END_CAUSE_IMAGE},
                {"CreateContainerConfigError", Hindrance::Kind::kContainer, v1::END_CAUSE_JOB},
                {"CreateContainerError", Hindrance::Kind::kContainer, v1::END_CAUSE_IMAGE},
                {"RunContainerError", Hindrance::Kind::kContainer, v1::END_CAUSE_IMAGE}};

std::string Say(const std::string& reason, const std::string& message) {
  return ToUtf8(absl::StrCat(reason, message.empty() ? "" : ": ", message), kLongestReason);
}

absl::Time TimeAt(const Json& object, kube::JsonPath path) {
  const absl::StatusOr<absl::Time> time = kube::TimeFromText(TextAt(object, path));
  return time.ok() ? *time : absl::InfinitePast();
}

const Json* FindCondition(const Json& pod, absl::string_view type) {
  const Json& conditions = At(pod, {"status", "conditions"});
  if (!conditions.is_array()) return nullptr;
  for (const Json& condition : conditions) {
    if (TextAt(condition, {"type"}) == type) return &condition;
  }
  return nullptr;
}

Hindrance OfContainers(const Json& statuses) {
  if (!statuses.is_array()) return {};
  for (const Json& status : statuses) {
    const Json& waiting = At(status, {"state", "waiting"});
    const std::string reason = TextAt(waiting, {"reason"});
    for (const auto& known : kReasons) {
      if (reason != known.reason) continue;
      const std::string why = Say(reason, TextAt(waiting, {"message"}));
      return {known.kind, known.cause, absl::StrCat("container ", TextAt(status, {"name"}), ": ", why)};
    }
  }
  return {};
}

}  // namespace

Hindrance HindranceOf(const Json& pod) {
  const std::string phase = TextAt(pod, {"status", "phase"});
  if (phase == "Succeeded" || phase == "Failed") return {};
  const Json* scheduled = FindCondition(pod, "PodScheduled");
  if (scheduled != nullptr && TextAt(*scheduled, {"status"}) == "False") {
    return {Hindrance::Kind::kUnschedulable, v1::END_CAUSE_NODE,
            Say(TextAt(*scheduled, {"reason"}), TextAt(*scheduled, {"message"})),
            TimeAt(*scheduled, {"lastTransitionTime"})};
  }
  Hindrance hindrance = OfContainers(At(pod, {"status", "initContainerStatuses"}));
  if (hindrance.kind == Hindrance::Kind::kNone) {
    hindrance = OfContainers(At(pod, {"status", "containerStatuses"}));
  }
  // Containers do not say since when they wait: since the pod came to its node, at most.
  if (hindrance.kind != Hindrance::Kind::kNone && scheduled != nullptr) {
    hindrance.since = TimeAt(*scheduled, {"lastTransitionTime"});
  }
  return hindrance;
}

v1::ReplicaReport Overdue(v1::ReplicaReport report, const Hindrance& hindrance) {
  v1::Replica* replica = report.mutable_replica();
  replica->set_state(v1::REPLICA_STATE_LOST);
  replica->set_end_cause(hindrance.cause);
  replica->set_message(hindrance.why);
  return report;
}

}  // namespace adaptdl::kubejobs
