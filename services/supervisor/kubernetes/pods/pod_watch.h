// Follows the pods that are replicas, and tells a sink what becomes of them, as their nodes' replicas:
//
//   pods ──reflector──▶ cache ──▶ nodes that have news ──threads──▶ ReplicaSink
//
// Each node is told about by one thread at a time, in the order of what happens there; what has changed twice
// before its turn comes is told once, as it is then. All pods of a node are told at once (ReconcileNode) after
// each list, when somebody asks for it, and each minute. What the sink refuses is told again, after a pause that
// grows. Nothing is told before the first list has come, and nothing is lost because the API server is down: what
// is not heard of stays as it was.
//
// A pod that the cluster does not bring to run within a deadline of ours is told as lost, and so is one that is
// bound to another node than it was made for, or that others have deleted. Whoever hears that acknowledges it, by
// which the pod goes (PodLauncher).
//
// Thread-safe. Borrows the client, the clock and the sink. Owns its threads, which its destructor ends.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_WATCH_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_WATCH_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/kube/client/client.h"
#include "libs/kube/control/cache.h"
#include "libs/kube/control/reflector.h"
#include "libs/kube/control/work_queue.h"
#include "services/supervisor/kubernetes/pods/node_pods.h"
#include "services/supervisor/kubernetes/pods/pod.h"
#include "services/supervisor/kubernetes/pods/replica_sink.h"

namespace adaptdl::supervisor {

struct PodWatchOptions {
  // Empty: pods of all namespaces.
  std::string name_space = {};
  // Whether a pod that says it is a replica can't be one: it is taken for nobody's, whatever it says. Called with a lock held, on
  // any thread. Null: none is.
  std::function<bool(const Pod&)> is_foreign = nullptr;
  NodePodsOptions node_pods = {};
  int threads = 4;
  kube::ReflectorOptions reflector = {};
  // Between tries of what the sink has refused.
  kube::WorkQueueOptions retries = {.longest_pause = absl::Seconds(30)};
  // Told of each pod that has come, has changed or is gone, as it happens: `before` or `after` is null. Does not
  // wait. Null: nobody is.
  std::function<void(const PodValue& before, const PodValue& after)> changed = nullptr;
  // Told of each thing that fails and is tried again; on any thread. Null: nobody is.
  std::function<void(const std::string& what, const absl::Status&)> report = nullptr;
};

class PodWatch final : private kube::ObjectSink {
 public:
  PodWatch(const kube::Client* client, const Clock* clock, ReplicaSink* sink, PodWatchOptions options);
  ~PodWatch() override;

  // Begins.
  void Start();
  // Ends all threads; nothing is told afterwards. What was heard of can still be found. To be called before what the
  // sink reaches, such as the launcher, ends: that one borrows this watch.
  void Stop();

  // Whether the first list has come; waits for it. False: a stop was requested first.
  bool AwaitSynced(const std::stop_token& stop) const { return cache_.AwaitSynced(stop); }
  // Null: there is no pod of the name, as far as is known.
  PodValue Find(const std::string& replica_id) const;

  // A pod that was just made, or found, and may not have been heard of yet: it counts as there from now on.
  void Expect(const kube::Json& pod);

  // Tells all pods of the node soon, and from then on each minute: it was registered, or something is amiss there.
  void Reconcile(const std::string& node_id);
  // The node is gone: its pods are told only if something happens to them.
  void Forget(const std::string& node_id);

 private:
  using PodCache = kube::Cache<Pod>;

  void Put(kube::Json object) override { cache_.Put(std::move(object)); }
  void Remove(kube::Json object) override { cache_.Remove(std::move(object)); }
  void Listed(const std::set<kube::ObjectKey>& present) override;

  Pod Parse(const kube::Json& object) const;
  void Run(const std::stop_token& stop);
  // Tells the sink what there is to be told of the node, in this order; what was told is taken out of `news`.
  absl::Status Tell(const std::string& node_id, NodeNews* news, const std::stop_token& stop);
  absl::Status TellGone(const std::string& node_id, NodeNews* news);
  absl::Status TellWhole(const std::string& node_id, NodeNews* news);
  absl::Status TellChanged(const std::string& node_id, NodeNews* news);
  // Whether pods that were expected, and not heard of for long, are there after all.
  absl::Status LookFor(const NodeNews& news, const std::stop_token& stop);

  const kube::Client& client_;
  const Clock& clock_;
  ReplicaSink& sink_;
  const PodWatchOptions options_;
  // By their names alone: a replica's is unique.
  PodCache cache_;
  NodePods nodes_;
  // Nodes, by their names.
  kube::WorkQueue queue_;
  std::vector<std::jthread> threads_;
  std::unique_ptr<kube::Reflector> reflector_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_WATCH_H_
