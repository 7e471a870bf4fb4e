// What the supervisor keeps in mind of a pod that is a replica: much less than the pod, of which there are
// thousands.
//
// Plain values and pure functions; thread-safe. They take whatever is in a pod, and fail on nothing.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "adaptdl/v1/node_service.pb.h"
#include "libs/kube/json/json.h"
#include "libs/kube/json/object.h"

namespace adaptdl::supervisor {

// Of all pods and claims that are ours.
inline constexpr char kOurs[] = "adaptdl=true";

// What keeps a pod from running that nobody may come to mend.
enum class Hindrance {
  kNone,
  // The scheduler finds no room for it where it was meant to be.
  kUnschedulable,
  // Its image can't be had.
  kImage,
  // It can't be started as it is written.
  kSpec,
};

struct Pod {
  kube::ObjectKey key;
  std::string uid;
  std::string resource_version;
  // The job that owns it. Empty: none does.
  std::string job_uid;
  // For which it was made; empty: the pod does not say. And where it is bound to; empty: not yet.
  std::string node;
  std::string bound_node;
  // Empty: it has none yet.
  std::string ip;
  // Whose log and end are the replica's (kubejobs::MainContainer()).
  std::string container;
  bool has_our_finalizer = false;
  std::vector<std::string> other_finalizers;
  bool is_being_deleted = false;
  // That the kubelet had, or has. Zero: it is done, or was not asked.
  absl::Duration deletion_grace;
  // "Pending", "Running", "Succeeded", "Failed", "Unknown".
  std::string phase;
  // Whether each container has ended. A kubelet says so before it says that the pod is over.
  bool containers_ended = false;
  Hindrance hindrance = Hindrance::kNone;
  // The cluster's words for it.
  std::string why;
  // As it is now. Without a replica_id: it is none of ours.
  v1::ReplicaReport report;

  bool IsReplica() const { return !report.replica().replica_id().empty(); }
  // Whether nothing of it runs any more, nor will.
  bool HasEnded() const { return containers_ended || phase == "Succeeded" || phase == "Failed"; }
  // Whose replica it is, as far as anybody can tell.
  const std::string& Node() const { return node.empty() ? bound_node : node; }
};

using PodValue = std::shared_ptr<const Pod>;

Pod ParsePod(const kube::Json& object);

// What the cluster says of the replica: that it is lost, where its pod can't come to anything on this node.
v1::ReplicaReport ReportOf(const Pod& pod);
// Of one that is gone, whose last state this was.
v1::ReplicaReport ReportOfGone(const Pod& pod);
// Of one that its hindrance has kept from running for too long.
v1::ReplicaReport ReportOfHindered(const Pod& pod);

// `report`, but lost.
v1::ReplicaReport Lost(v1::ReplicaReport report, v1::EndCause cause, absl::string_view message);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_H_
