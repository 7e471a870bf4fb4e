#include "services/supervisor/kubernetes/nodes/node_object.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"
#include "libs/kube/json/object.h"
#include "libs/kubejobs/placement.h"
#include "libs/kubejobs/resources.h"

namespace adaptdl::supervisor {
namespace {

using kube::At;
using kube::Json;
using kube::TextAt;

// A label that says that a node may be taken away at short notice.
constexpr struct {
  const char* label;
  const char* value;
} kSpot[] = {{"eks.amazonaws.com/capacityType", "SPOT"},
             {"cloud.google.com/gke-spot", "true"},
             {"cloud.google.com/gke-preemptible", "true"},
             {"kubernetes.azure.com/scalesetpriority", "spot"},
             {"karpenter.sh/capacity-type", "spot"}};

// Taints by which those who take nodes away say so.
constexpr struct {
  const char* key;
  const char* reason;
  bool likely_only = false;
} kLeaving[] = {
    {"ToBeDeletedByClusterAutoscaler", "the cluster autoscaler removes it"},
    {"karpenter.sh/disrupted", "Karpenter replaces it"},
    {"karpenter.sh/disruption", "Karpenter replaces it"},
    {"aws-node-termination-handler/spot-itn", "its spot instance is taken back"},
    {"aws-node-termination-handler/asg-lifecycle-termination", "its group of machines gives it up"},
    {"aws-node-termination-handler/scheduled-maintenance", "its machine is maintained"},
    {"aws-node-termination-handler/rebalance-recommendation",
     "its spot instance is likely to be taken back (rebalance recommendation)", true},
    {"cloud.google.com/impending-node-termination", "its machine is taken back"},
    {"node.kubernetes.io/out-of-service", "it is out of service"}};

// Taints that say in another way what its conditions and its spec say, too.
bool SaysWhatIsKnown(const v1::Taint& taint) {
  for (const char* key : {"node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready",
                          "node.kubernetes.io/unreachable"}) {
    if (taint.key() == key) return true;
  }
  return false;
}

bool IsSpot(const v1::Node& node) {
  for (const auto& spot : kSpot) {
    const auto label = node.labels().find(spot.label);
    if (label != node.labels().end() && label->second == spot.value) return true;
  }
  return false;
}

// Where other nodes reach it, for people; its replicas are reached by the addresses of their pods.
std::string HostOf(const Json& object, const std::string& name) {
  const Json& addresses = At(object, {"status", "addresses"});
  if (!addresses.is_array()) return name;
  for (const Json& address : addresses) {
    if (TextAt(address, {"type"}) == "InternalIP") return TextAt(address, {"address"});
  }
  return name;
}

// Whether it has not been ready yet since it was made, so that nothing can run there: a node that joins takes a while to
// be ready, and has its conditions from the start.
bool IsNew(const Json& object, absl::Time since) {
  const absl::StatusOr<absl::Time> made =
      kube::TimeFromText(TextAt(object, {"metadata", "creationTimestamp"}));
  return made.ok() && since >= *made && since - *made <= absl::Seconds(2);
}

void ReadReady(const Json& object, NodeObject* node) {
  const Json& conditions = At(object, {"status", "conditions"});
  if (!conditions.is_array()) return;
  for (const Json& condition : conditions) {
    if (TextAt(condition, {"type"}) != "Ready") continue;
    node->ready = TextAt(condition, {"status"}) == "True";
    const absl::StatusOr<absl::Time> since = kube::TimeFromText(TextAt(condition, {"lastTransitionTime"}));
    if (since.ok() && (node->ready || !IsNew(object, *since))) node->since = *since;
  }
}

void ReadTaints(const Json& object, ObservedNode* observed) {
  for (const v1::Taint& taint : kubejobs::TaintsOf(object)) {
    for (const auto& leaving : kLeaving) {
      if (taint.key() != leaving.key) continue;
      // What is certain counts more than what is likely.
      if (observed->leaving.has_value() && leaving.likely_only) continue;
      v1::PreemptionNotice& notice = observed->leaving.emplace();
      notice.set_reason(leaving.reason);
      notice.set_likely_only(leaving.likely_only);
    }
    if (!SaysWhatIsKnown(taint)) *observed->node.add_taints() = taint;
  }
}

bool SameNotice(const std::optional<v1::PreemptionNotice>& a, const std::optional<v1::PreemptionNotice>& b) {
  if (!a.has_value() || !b.has_value()) return a.has_value() == b.has_value();
  return a->likely_only() == b->likely_only();
}

}  // namespace

bool NodeObject::operator==(const NodeObject& other) const {
  using google::protobuf::util::MessageDifferencer;
  return ready == other.ready && since == other.since && observed.closed == other.observed.closed &&
         SameNotice(observed.leaving, other.observed.leaving) &&
         MessageDifferencer::Equals(observed.node, other.observed.node);
}

NodeObject ReadNode(const Json& object, const NodeLabels& labels) {
  NodeObject result;
  v1::Node& node = result.observed.node;
  node.set_node_id(kube::KeyOf(object).name);
  node.set_replica_host(HostOf(object, node.node_id()));
  node.set_version(TextAt(object, {"status", "nodeInfo", "kubeletVersion"}));
  const absl::StatusOr<v1::Resources> capacity = kubejobs::Allocatable(object);
  if (capacity.ok()) {
    *node.mutable_capacity() = *capacity;
  } else {
    node.add_problems(std::string(capacity.status().message()));
  }
  const Json& texts = At(object, {"metadata", "labels"});
  for (auto label = texts.begin(); texts.is_object() && label != texts.end(); ++label) {
    if (label->is_string()) (*node.mutable_labels())[label.key()] = label->get<std::string>();
  }
  if (node.capacity().gpus() > 0) node.set_gpu_type(kube::LabelOf(object, labels.gpu_type));
  node.set_preemptible(IsSpot(node));
  ReadTaints(object, &result.observed);
  if (kube::BoolAt(object, {"spec", "unschedulable"})) result.observed.closed = "cordoned";
  if (kube::IsBeingDeleted(object)) {
    result.observed.closed = "its Node object is being deleted";
    const auto& leaving = result.observed.leaving;
    if (leaving.has_value() && leaving->likely_only()) result.observed.leaving.reset();
  }
  ReadReady(object, &result);
  return result;
}

}  // namespace adaptdl::supervisor
