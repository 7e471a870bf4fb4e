// Follows the pods that are replicas, and tells a sink what becomes of them, as their nodes' replicas:
//
//   pods ──reflector──▶ cache ──▶ nodes that have news ──threads──▶ ReplicaSink
//
// Each node is told about by one thread at a time, in the order of what happens there; what has changed twice
// before its turn comes is told once, as it is then. All pods of a node are told at once (ReconcileNode) after
// each list, when somebody asks for it, and each minute. What the sink refuses is told again, after a pause that
// grows. Nothing is told before the first list has come, nor is anything lost because the API server is down: what
// is not heard of stays as it was.
//
// A pod that the cluster does not bring to run within a deadline of ours is told as lost, and so is one that is
// bound to another node than it was made for, or that others have deleted. Who hears that, acknowledges it, by which
// the pod goes (PodLauncher).
//
// Thread-safe. Borrows the client, the clock and the sink. Owns its threads, which its destructor ends.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_WATCH_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_WATCH_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "adaptdl/v1/node_service.pb.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/kube/client/client.h"
#include "libs/kube/control/cache.h"
#include "libs/kube/control/reflector.h"
#include "libs/kube/control/work_queue.h"
#include "services/supervisor/kubernetes/pods/pod.h"
#include "services/supervisor/kubernetes/pods/replica_sink.h"

namespace adaptdl::supervisor {

struct PodWatchOptions {
  // Empty: pods of all namespaces.
  std::string name_space = {};
  absl::Duration reconcile_period = absl::Minutes(1);
  // How long a pod may find no room, and how long its image may not be had, or it may not be started.
  absl::Duration unschedulable_deadline = absl::Seconds(30);
  absl::Duration start_deadline = absl::Minutes(2);
  int threads = 4;
  kube::ReflectorOptions reflector = {};
  // Between tries of what the sink has refused.
  kube::WorkQueueOptions retries = {.longest_pause = absl::Seconds(30)};
  // Told of each thing that fails and is tried again; on any thread. Null: nobody is.
  std::function<void(const std::string& what, const absl::Status&)> report = nullptr;
};

class PodWatch final : private kube::ObjectSink {
 public:
  PodWatch(const kube::Client* client, const Clock* clock, ReadReport read, ReplicaSink* sink,
           PodWatchOptions options);
  ~PodWatch() override;

  // Begins.
  void Start();

  // Whether the first list has come.
  bool AwaitSynced(const std::stop_token& stop) const { return pods_.AwaitSynced(stop); }
  // Null: there is no pod of the name, as far as is known. Of two in different namespaces, one.
  PodValue Find(const std::string& replica_id) const;
  size_t size() const { return pods_.All().size(); }

  // Tells all pods of the node soon, and from then on each minute: it was registered, or something is amiss there.
  void Reconcile(const std::string& node_id);
  // The node is gone: its pods are told only if something happens to them.
  void Forget(const std::string& node_id);

 private:
  using PodCache = kube::Cache<Pod>;

  // Of a pod that does not get to run, since when, by the steady clock.
  struct Hindered {
    Hindrance hindrance;
    absl::Time since;
  };
  struct Node {
    std::set<kube::ObjectKey> pods;
    // Of which there is something to tell; and what has gone, as it was.
    std::set<kube::ObjectKey> changed;
    std::map<std::string, PodValue> gone;
    // Whether, and when, all of it is to be told.
    std::optional<absl::Time> reconcile;
    bool is_followed = false;
  };
  // What is to be told of a node now.
  struct News {
    bool whole = false;
    std::vector<v1::ReplicaReport> reports;
  };

  void Put(kube::Json object) override { pods_.Put(std::move(object)); }
  void Remove(kube::Json object) override { pods_.Remove(std::move(object)); }
  void Listed(const std::set<kube::ObjectKey>& present) override;

  void OnChange(const PodCache::Change& change);
  void NoteHindrance(const PodCache::Change& change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run(const std::stop_token& stop);
  absl::Status Tell(const std::string& node_id);
  News TakeNews(const std::string& node_id, absl::Time now);
  void AddReports(const Node& node, absl::Time now, News* news) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveBack(const std::string& node_id);
  // As it is to be told now: its deadline may have passed.
  v1::ReplicaReport ReportNow(const Pod& pod, absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Duration DeadlineOf(Hindrance hindrance) const;
  // When something of the node is to be told though nothing happens.
  absl::Time NextTime(const Node& node) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const kube::Client& client_;
  const Clock& clock_;
  ReplicaSink& sink_;
  const PodWatchOptions options_;
  PodCache pods_;
  // Nodes, by their names.
  kube::WorkQueue queue_;

  mutable Mutex mutex_;
  std::map<std::string, Node> nodes_ ABSL_GUARDED_BY(mutex_);
  std::map<kube::ObjectKey, Hindered> hindered_ ABSL_GUARDED_BY(mutex_);

  std::vector<std::jthread> threads_;
  std::unique_ptr<kube::Reflector> reflector_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_WATCH_H_
