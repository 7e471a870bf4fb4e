#include "services/supervisor/kubernetes/pods/pod.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "libs/base/utf8.h"
#include "libs/kubejobs/names.h"
#include "libs/kubejobs/pod_state.h"

namespace adaptdl::supervisor {
namespace {

using kube::At;
using kube::Json;
using kube::TextAt;

constexpr size_t kMaxWhy = 1000;
constexpr std::array<absl::string_view, 6> kImageReasons = {"ErrImagePull",      "ImagePullBackOff",
                                                            "ErrImageNeverPull", "RegistryUnavailable",
                                                            "ImageInspectError", "InvalidImageName"};
constexpr std::array<absl::string_view, 4> kSpecReasons = {
    "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError"};

// Null is an empty list.
const Json& Items(const Json& list) {
  static const Json* const kNone = new Json(Json::array());
  return list.is_array() ? list : *kNone;
}

void ReadFinalizers(const Json& object, Pod* pod) {
  for (const Json& finalizer : Items(kube::At(object, {"metadata", "finalizers"}))) {
    if (!finalizer.is_string()) continue;
    if (finalizer == kubejobs::kReplicaFinalizer) {
      pod->has_our_finalizer = true;
    } else {
      pod->other_finalizers.push_back(finalizer.get<std::string>());
    }
  }
}

void Hinder(Hindrance hindrance, const Json& said, Pod* pod) {
  pod->hindrance = hindrance;
  const std::string message = TextAt(said, {"message"});
  pod->why = ToUtf8(absl::StrCat(TextAt(said, {"reason"}), message.empty() ? "" : ": ", message), kMaxWhy);
}

void ReadHindrance(const Json& object, Pod* pod) {
  if (pod->phase != "Pending") return;
  for (const Json& condition : Items(kube::At(object, {"status", "conditions"}))) {
    if (TextAt(condition, {"type"}) == "PodScheduled" && TextAt(condition, {"status"}) == "False" &&
        TextAt(condition, {"reason"}) == "Unschedulable") {
      return Hinder(Hindrance::kUnschedulable, condition, pod);
    }
  }
  for (const char* containers : {"initContainerStatuses", "containerStatuses"}) {
    for (const Json& status : Items(kube::At(object, {"status", containers}))) {
      const Json& waiting = kube::At(status, {"state", "waiting"});
      const std::string reason = TextAt(waiting, {"reason"});
      if (absl::c_linear_search(kImageReasons, reason)) return Hinder(Hindrance::kImage, waiting, pod);
      if (absl::c_linear_search(kSpecReasons, reason)) return Hinder(Hindrance::kSpec, waiting, pod);
    }
  }
}

bool IsLive(const v1::ReplicaReport& report) {
  return report.replica().state() == v1::REPLICA_STATE_LAUNCHING ||
         report.replica().state() == v1::REPLICA_STATE_RUNNING;
}

bool HaveContainersEnded(const Json& object) {
  const Json& containers = At(object, {"spec", "containers"});
  const Json& statuses = At(object, {"status", "containerStatuses"});
  if (!containers.is_array() || !statuses.is_array() || statuses.empty()) return false;
  return statuses.size() == containers.size() &&
         std::all_of(statuses.begin(), statuses.end(), [](const Json& status) {
           return At(status, {"state", "terminated"}).is_object();
         });
}

}  // namespace

Pod ParsePod(const Json& object) {
  Pod pod;
  pod.key = kube::KeyOf(object);
  pod.uid = kube::UidOf(object);
  pod.resource_version = kube::ResourceVersionOf(object);
  const kube::Owner owner = kube::ControllerOf(object);
  if (owner.kind == kubejobs::kJobKind) pod.job_uid = owner.uid;
  pod.node = kube::AnnotationOf(object, kubejobs::kNodeAnnotation);
  pod.bound_node = TextAt(object, {"spec", "nodeName"});
  pod.ip = TextAt(object, {"status", "podIP"});
  pod.container = kubejobs::MainContainer(object);
  ReadFinalizers(object, &pod);
  pod.is_being_deleted = kube::IsBeingDeleted(object);
  pod.deletion_grace = absl::Seconds(kube::IntegerAt(object, {"metadata", "deletionGracePeriodSeconds"}));
  pod.phase = TextAt(object, {"status", "phase"});
  pod.containers_ended = HaveContainersEnded(object);
  ReadHindrance(object, &pod);
  pod.report = kubejobs::ReportOf(object).value_or(v1::ReplicaReport());
  return pod;
}

v1::ReplicaReport Lost(v1::ReplicaReport report, v1::EndCause cause, absl::string_view message) {
  v1::Replica* replica = report.mutable_replica();
  replica->set_state(v1::REPLICA_STATE_LOST);
  replica->set_end_cause(cause);
  replica->set_message(ToUtf8(message, kMaxWhy));
  return report;
}

v1::ReplicaReport ReportOf(const Pod& pod) {
  if (!IsLive(pod.report)) return pod.report;
  if (!pod.node.empty() && !pod.bound_node.empty() && pod.node != pod.bound_node) {
    return Lost(pod.report, v1::END_CAUSE_NODE,
                absl::StrCat("its pod was bound to node ", pod.bound_node, ", not to ", pod.node));
  }
  // Nothing but finalizers keeps it: nobody will say any more how it ended.
  if (pod.is_being_deleted && pod.deletion_grace == absl::ZeroDuration()) return ReportOfGone(pod);
  return pod.report;
}

v1::ReplicaReport ReportOfGone(const Pod& pod) {
  if (!IsLive(pod.report)) return pod.report;
  // What the cluster says when it has lost sight of the node.
  if (pod.phase == "Unknown") return Lost(pod.report, v1::END_CAUSE_NODE, "its pod went with its node");
  return Lost(pod.report, v1::END_CAUSE_PREEMPTION, "its pod was deleted");
}

v1::ReplicaReport ReportOfHindered(const Pod& pod) {
  switch (pod.hindrance) {
    case Hindrance::kNone:
      break;
    case Hindrance::kUnschedulable:
      return Lost(pod.report, v1::END_CAUSE_NODE,
                  absl::StrCat("others took the room on node ", pod.Node(), ": ", pod.why));
    case Hindrance::kImage:
      return Lost(pod.report, v1::END_CAUSE_IMAGE, pod.why);
    case Hindrance::kSpec:
      return Lost(pod.report, v1::END_CAUSE_JOB, pod.why);
  }
  return ReportOf(pod);
}

}  // namespace adaptdl::supervisor
