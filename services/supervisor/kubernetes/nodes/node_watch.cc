#include "services/supervisor/kubernetes/nodes/node_watch.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/kubejobs/names.h"
#include "libs/kubejobs/resources.h"
#include "libs/service/log.h"

namespace adaptdl::supervisor {
namespace {

kube::Selection ForeignPods() {
  return {.labels = absl::StrCat(kubejobs::kReplicaLabel, "!=true"),
          .fields = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"};
}

// Whether it is a placeholder, and of so low a priority that the scheduler takes it away for any replica.
bool Yields(const kube::Json& pod) {
  return kube::LabelOf(pod, kubejobs::kPlaceholderLabel) == "true" &&
         kube::IntegerAt(pod, {"spec", "priority"}) < 0;
}

kube::ReflectorOptions ReflectorOptionsOf(const NodeWatchOptions& options, kube::Selection selection) {
  kube::ReflectorOptions reflector;
  reflector.selection = std::move(selection);
  reflector.report = options.report;
  return reflector;
}

}  // namespace

NodeWatch::NodeWatch(const kube::Client* client, ObservedNodes* nodes, const Clock* clock,
                     NodeWatchOptions options)
    : options_(std::move(options)),
      nodes_(*nodes),
      clock_(*clock),
      objects_({.parse = [labels = options_.labels](
                             const kube::Json& object) { return ReadNode(object, labels); }}),
      pods_({.parse = ReadPod, .index = [](const ForeignPod& pod) { return pod.node; }}) {
  objects_.AddHandler([this](const auto& change) {
    if (change.before != nullptr && change.after != nullptr && *change.before == *change.after) return;
    Mark(change.key.name);
  });
  pods_.AddHandler([this](const auto& change) {
    if (change.before != nullptr) Mark(change.before->node);
    if (change.after != nullptr) Mark(change.after->node);
  });
  node_reflector_ = std::make_unique<kube::Reflector>(client, kube::Collection(kube::Nodes()),
                                                      ReflectorOptionsOf(options_, {}), &objects_);
  pod_reflector_ = std::make_unique<kube::Reflector>(client, kube::Collection(kube::Pods()),
                                                     ReflectorOptionsOf(options_, ForeignPods()), &pods_);
}

NodeWatch::ForeignPod NodeWatch::ReadPod(const kube::Json& object) {
  ForeignPod pod{kube::TextAt(object, {"spec", "nodeName"}), {}};
  if (Yields(object)) return pod;
  absl::StatusOr<v1::Resources> request = kubejobs::PodRequest(kube::At(object, {"spec"}));
  // The API server has taken it: what we can't read of it is none of the kinds that we count.
  if (request.ok()) pod.request = *std::move(request);
  return pod;
}

void NodeWatch::Mark(const std::string& node) {
  MutexLock lock(&mutex_);
  marked_.insert(node);
}

bool NodeWatch::AwaitSynced(const std::stop_token& stop) {
  if (!objects_.AwaitSynced(stop) || !pods_.AwaitSynced(stop)) return false;
  Step();
  return true;
}

std::optional<NodeObject> NodeWatch::Look(const std::string& id) const {
  const auto object = objects_.Find({"", id});
  if (object == nullptr) return std::nullopt;
  NodeObject node = *object;
  v1::Resources* capacity = node.observed.node.mutable_capacity();
  for (const auto& pod : pods_.ByIndex(id)) *capacity = kubejobs::Less(*capacity, pod->request);
  return node;
}

bool NodeWatch::Lives(const NodeObject& node) const {
  return node.ready || clock_.Both().wall - node.since < options_.grace;
}

bool NodeWatch::Tell(const std::string& id) {
  const std::optional<NodeObject> node = Look(id);
  absl::Status status;
  if (!node.has_value()) {
    status = nodes_.Forget(id, "its Node object is gone");
  } else if (Lives(*node)) {
    status = nodes_.Observe(node->observed);
  }
  if (status.ok() && options_.told != nullptr) options_.told(id, node.has_value());
  if (!status.ok()) {
    log::Warning("what has become of a node can't be stored; it is tried again",
                 {{"node", id}, {"error", status.ToString()}});
  }
  return status.ok();
}

void NodeWatch::Step() {
  // What others hold is not known before: nodes would look empty.
  if (!objects_.synced() || !pods_.synced()) return;
  std::set<std::string> marked;
  {
    MutexLock lock(&mutex_);
    marked.swap(marked_);
  }
  for (const std::string& id : marked) {
    if (!id.empty() && !Tell(id)) Mark(id);
  }
  std::vector<std::string> living;
  for (const auto& node : objects_.All()) {
    if (Lives(*node)) living.push_back(node->observed.node.node_id());
  }
  nodes_.KeepAlive(living);
}

}  // namespace adaptdl::supervisor
