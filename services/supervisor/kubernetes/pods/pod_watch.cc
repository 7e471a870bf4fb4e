#include "services/supervisor/kubernetes/pods/pod_watch.h"

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace adaptdl::supervisor {
namespace {

kube::ObjectKey NodeKey(const std::string& node_id) { return {"", node_id}; }

// Of a pod that was deleted and made anew under its name, this one is gone.
bool IsGone(const absl::StatusOr<kube::Json>& object, const Pod& pod) {
  return absl::IsNotFound(object.status()) || (object.ok() && kube::UidOf(*object) != pod.uid);
}

}  // namespace

PodWatch::PodWatch(const kube::Client* client, const Clock* clock, ReplicaSink* sink, PodWatchOptions options)
    : client_(*client),
      clock_(*clock),
      sink_(*sink),
      options_(std::move(options)),
      cache_({.parse = [this](const kube::Json& object) { return Parse(object); },
              .index = [](const Pod& pod) { return pod.key.name; }}),
      nodes_(options_.node_pods),
      queue_(clock, options_.retries) {
  cache_.AddHandler([this](const PodCache::Change& change) {
    if (options_.changed != nullptr) options_.changed(change.before, change.after);
    for (const std::string& node : nodes_.Change(change.before, change.after, clock_.Steady())) {
      queue_.Add(NodeKey(node));
    }
  });
}

PodWatch::~PodWatch() { Stop(); }

Pod PodWatch::Parse(const kube::Json& object) const {
  Pod pod = ParsePod(object);
  if (options_.is_foreign != nullptr && pod.IsReplica() && options_.is_foreign(pod)) pod.report.Clear();
  return pod;
}

void PodWatch::Stop() {
  reflector_.reset();
  for (std::jthread& thread : threads_) thread.request_stop();
  threads_.clear();
}

void PodWatch::Start() {
  kube::ReflectorOptions reflector = options_.reflector;
  reflector.selection.labels = kOurs;
  if (options_.report != nullptr) {
    reflector.report = [this](const absl::Status& status) { options_.report("following pods", status); };
  }
  reflector_ =
      std::make_unique<kube::Reflector>(&client_, kube::Collection(kube::Pods(), options_.name_space),
                                        std::move(reflector), static_cast<kube::ObjectSink*>(this));
  for (int i = 0; i < options_.threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { Run(stop); });
  }
}

PodValue PodWatch::Find(const std::string& replica_id) const {
  for (const PodValue& pod : cache_.ByIndex(replica_id)) {
    if (pod->IsReplica()) return pod;
  }
  return nodes_.FindExpected(replica_id);
}

void PodWatch::Expect(const kube::Json& pod) {
  nodes_.Expect(std::make_shared<const Pod>(ParsePod(pod)), clock_.Steady());
}

void PodWatch::Reconcile(const std::string& node_id) {
  nodes_.Follow(node_id, clock_.Steady());
  queue_.Add(NodeKey(node_id));
}

void PodWatch::Forget(const std::string& node_id) { nodes_.Forget(node_id); }

void PodWatch::Listed(const std::set<kube::ObjectKey>& present) {
  cache_.Listed(present);
  for (const std::string& node : nodes_.TellAll(clock_.Steady())) queue_.Add(NodeKey(node));
}

void PodWatch::Run(const std::stop_token& stop) {
  if (!AwaitSynced(stop)) return;
  while (const std::optional<kube::ObjectKey> key = queue_.Take(stop)) {
    const std::string& node_id = key->name;
    NodeNews news = nodes_.Take(node_id, clock_.Steady());
    const absl::Status status = Tell(node_id, &news, stop);
    if (!status.ok()) {
      nodes_.GiveBack(node_id, std::move(news));
      queue_.Retry(*key);
      if (options_.report != nullptr) options_.report(absl::StrCat("telling of node ", node_id), status);
      continue;
    }
    const absl::Time next = nodes_.NextTime(node_id);
    if (next != absl::InfiniteFuture()) queue_.AddAfter(*key, next - clock_.Steady());
    queue_.Done(*key);
  }
}

absl::Status PodWatch::Tell(const std::string& node_id, NodeNews* news, const std::stop_token& stop) {
  // What has gone is told first, so that it counts as it ended, and not as missing among all.
  absl::Status status = TellGone(node_id, news);
  if (status.ok() && news->whole) status = TellWhole(node_id, news);
  if (status.ok()) status = TellChanged(node_id, news);
  // Last, so that nothing waits for the API server.
  if (status.ok()) status = LookFor(*news, stop);
  return status;
}

absl::Status PodWatch::LookFor(const NodeNews& news, const std::stop_token& stop) {
  for (const PodValue& pod : news.missing) {
    const absl::StatusOr<kube::Json> object = client_.Get(kube::ObjectOf(kube::Pods(), pod->key), stop);
    if (IsGone(object, *pod)) {
      for (const std::string& node : nodes_.Disappoint(pod, clock_.Steady())) queue_.Add(NodeKey(node));
    } else if (!object.ok()) {
      return object.status();
    }
  }
  return absl::OkStatus();
}

absl::Status PodWatch::TellGone(const std::string& node_id, NodeNews* news) {
  while (!news->gone.empty()) {
    const auto first = news->gone.begin();
    const absl::Status status = sink_.ObserveReplica(node_id, ReportOfGone(*first->second));
    if (!status.ok()) return status;
    news->gone.erase(first);
  }
  return absl::OkStatus();
}

absl::Status PodWatch::TellWhole(const std::string& node_id, NodeNews* news) {
  v1::NodeHello hello;
  hello.set_node_id(node_id);
  for (const auto& [key, report] : news->reports) *hello.add_replicas() = report;
  const absl::Status status = sink_.ReconcileNode(hello);
  // A node that is not registered has no replicas that could be missing; but those that it has are told.
  if (!status.ok() && !absl::IsNotFound(status) && !absl::IsAborted(status)) return status;
  if (status.ok()) news->reports.clear();
  news->whole = false;
  return absl::OkStatus();
}

absl::Status PodWatch::TellChanged(const std::string& node_id, NodeNews* news) {
  while (!news->reports.empty()) {
    const auto first = news->reports.begin();
    const absl::Status status = sink_.ObserveReplica(node_id, first->second);
    if (!status.ok()) return status;
    news->reports.erase(first);
  }
  return absl::OkStatus();
}

}  // namespace adaptdl::supervisor
