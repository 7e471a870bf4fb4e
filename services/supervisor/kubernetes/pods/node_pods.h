// The pods of each node, and what of them is to be told when. It keeps the times, and starts nothing.
//
// Thread-safe. Owns what it holds. No call fails. All times are of the steady clock.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_NODE_PODS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_NODE_PODS_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "adaptdl/v1/node_service.pb.h"
#include "libs/base/mutex.h"
#include "libs/kube/json/object.h"
#include "services/supervisor/kubernetes/pods/pod.h"

namespace adaptdl::supervisor {

struct NodePodsOptions {
  absl::Duration reconcile_period = absl::Minutes(1);
  // How long a pod may find no room, and how long its image may not be had, or it may not be started.
  absl::Duration unschedulable_deadline = absl::Seconds(30);
  absl::Duration start_deadline = absl::Minutes(2);
};

// What is to be told of a node, first to last.
struct NodeNews {
  // Pods that are gone, as they were.
  std::map<kube::ObjectKey, PodValue> gone;
  // Whether all pods are to be told at once; these are all of them.
  bool whole = false;
  // Otherwise those that have changed.
  std::map<kube::ObjectKey, v1::ReplicaReport> reports;
  // Pods that were expected for long and not heard of.
  std::vector<PodValue> missing;
};

class NodePods {
 public:
  explicit NodePods(NodePodsOptions options) : options_(options) {}

  // A pod has come, has changed or is gone: `before` or `after` is null. Returns the nodes that this is about.
  std::set<std::string> Change(const PodValue& before, const PodValue& after, absl::Time now);
  // It is there, though it was not heard of yet.
  void Expect(const PodValue& pod, absl::Time now);
  // Null: none that is expected has the name.
  PodValue FindExpected(const std::string& name) const;
  // It is not there after all. Returns its node.
  std::set<std::string> Disappoint(const PodValue& pod, absl::Time now);

  void Follow(const std::string& node_id, absl::Time now);
  void Forget(const std::string& node_id);
  // Everything is to be told anew. Returns all nodes.
  std::set<std::string> TellAll(absl::Time now);

  // What is to be told now; it counts as told.
  NodeNews Take(const std::string& node_id, absl::Time now);
  // What was not told after all.
  void GiveBack(const std::string& node_id, NodeNews news);
  // When there is something to be told though nothing happens.
  absl::Time NextTime(const std::string& node_id) const;

 private:
  struct Entry {
    PodValue pod;
    // When it was expected. Infinite: it was heard of.
    absl::Time expected = absl::InfiniteFuture();
    // Since when the same hindrance keeps it.
    absl::Time hindered = absl::InfiniteFuture();
    bool has_changed = true;
    // Whether it was told that it is hindered.
    bool is_given_up = false;
  };
  struct Node {
    std::map<kube::ObjectKey, Entry> pods;
    std::map<kube::ObjectKey, PodValue> gone;
    // When all is to be told.
    absl::Time reconcile = absl::InfiniteFuture();
    bool is_followed = false;
  };

  absl::Time Deadline(const Entry& entry) const;
  v1::ReplicaReport ReportNow(Entry* entry, absl::Time now) const;
  void Erase(const PodValue& pod) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EraseIfIdle(const std::string& node_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const NodePodsOptions options_;
  mutable Mutex mutex_;
  std::map<std::string, Node> nodes_ ABSL_GUARDED_BY(mutex_);
  // Those that are expected, by name.
  std::map<std::string, PodValue> expected_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_NODE_PODS_H_
