// The nodes of the cluster: their registration, sessions and leases, and what they say of what runs there.
// Thread-safe; all errors are those that workers and admins see.
//
// Calls that change something take the `caller` that has proved who it is (Admission::IdentityOf): an answer
// is repeated to none other.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_NODES_NODE_MANAGER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_NODES_NODE_MANAGER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "adaptdl/v1/node_service.pb.h"
#include "libs/base/mutex.h"
#include "libs/base/token_buckets.h"
#include "services/supervisor/jobs/file_deletions.h"
#include "services/supervisor/jobs/orders.h"
#include "services/supervisor/jobs/reconciler.h"
#include "services/supervisor/nodes/leaving.h"
#include "services/supervisor/nodes/replica_observer.h"
#include "services/supervisor/pools/node_pools.h"
#include "services/supervisor/replicas/report_limiter.h"
#include "services/supervisor/state/core.h"

namespace adaptdl::supervisor {

// None is owned; all outlive the manager.
struct NodeManagerParts {
  Core* core = nullptr;
  Reconciler* reconciler = nullptr;
  const Orders* orders = nullptr;
  FileDeletions* deletions = nullptr;
  ReplicaObserver* observer = nullptr;
  ReportLimiter* limiter = nullptr;
  const NodePools* pools = nullptr;
};

class NodeManager {
 public:
  // Nodes are lost after three of these periods without a sign of life.
  NodeManager(const NodeManagerParts& parts, absl::Duration heartbeat_period)
      : core_(parts.core),
        reconciler_(parts.reconciler),
        orders_(parts.orders),
        deletions_(parts.deletions),
        observer_(parts.observer),
        limiter_(parts.limiter),
        pools_(parts.pools),
        heartbeat_period_(heartbeat_period) {}

  absl::StatusOr<v1::RegisterNodeResponse> RegisterNode(const v1::RegisterNodeRequest& request,
                                                        const std::string& caller);
  // The lease of the node's current session. ABORTED: there is no such session.
  absl::StatusOr<std::shared_ptr<Lease>> FindSession(const std::string& node_id, int64_t session_id) const;
  // The node says what runs there: what differs is stopped, started again or lost.
  absl::Status ReconcileNode(const v1::NodeHello& hello);
  absl::Status ObserveReplica(const std::string& node_id, const v1::ReplicaReport& report);
  absl::Status NoticePreemption(const std::string& node_id, const v1::PreemptionNotice& notice);
  // Nothing of the deleted job is left on the node.
  absl::Status FinishDeletion(const std::string& node_id, const std::string& job_uid) {
    return deletions_->Finish(node_id, job_uid);
  }
  absl::Status OfferPorts(const std::string& node_id, const v1::FreePorts& free);
  absl::StatusOr<v1::ListNodesResponse> ListNodes(const v1::ListNodesRequest& request) const;
  absl::StatusOr<v1::DrainNodeResponse> DrainNode(const v1::DrainNodeRequest& request,
                                                  const std::string& caller);
  absl::StatusOr<v1::RemoveNodeResponse> RemoveNode(const v1::RemoveNodeRequest& request,
                                                    const std::string& caller);
  // Writes what its pool says of the node into it.
  void DescribePool(v1::Node* node) const { pools_->Describe(node); }
  // Takes silent nodes for lost. Called by one thread.
  void Step();

  // Tells the jobs on the node of a notice that it was given.
  void TellLeaving(Transaction* transaction, const std::string& id, const v1::PreemptionNotice& notice) {
    supervisor::TellLeaving(transaction, id, notice, limiter_);
  }

  // The node is lost, with its replicas. One that drains and is empty is forgotten.
  void LoseNow(Transaction* transaction, const std::string& id, const std::string& why);
  // The node, and all that is kept of it: when it comes back, it is as new.
  static void Forget(Transaction* transaction, const std::string& id);

 private:
  static constexpr int kLostAfterPeriods = 3;
  // Registrations of a node: so many at once, and one per period.
  static constexpr int kRegistrationBurst = 60;
  static constexpr absl::Duration kRegistrationPeriod = absl::Seconds(5);

  absl::Duration Patience() const { return kLostAfterPeriods * heartbeat_period_; }
  // The node is about to register. RESOURCE_EXHAUSTED: it does so too often.
  absl::Status NoteAttempt(const std::string& id);
  // A replica that may be on the node, which has `reported` it, or not. `index`: in JobEntry::replicas.
  void Compare(Transaction* transaction, const std::string& uid, int index, bool reported) const;
  std::vector<std::string> FindSilent(absl::Time now);
  void ExpireLeases();

  Core* const core_;
  Reconciler* const reconciler_;
  const Orders* const orders_;
  FileDeletions* const deletions_;
  ReplicaObserver* const observer_;
  ReportLimiter* const limiter_;
  const NodePools* const pools_;
  const absl::Duration heartbeat_period_;
  absl::Time last_step_ = absl::InfinitePast();  // Used in Step() only.
  // Whether ports were offered that jobs may wait for.
  std::atomic<bool> ports_offered_ = false;
  Mutex mutex_;
  TokenBuckets registrations_ ABSL_GUARDED_BY(mutex_) = {kRegistrationBurst, kRegistrationPeriod};
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_NODES_NODE_MANAGER_H_
