// What the worker does when its node goes away: it tells the supervisor, launches nothing more, lets the jobs be moved,
// and near the end stops what nobody has moved. Notices come from the node's cloud (NoticeListener), and from whoever
// ends the worker (Drain()); the earliest deadline counts.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_LEAVING_H_
#define ADAPTDL_SERVICES_WORKER_LEAVING_H_

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "services/worker/notices/notice_watcher.h"
#include "services/worker/replica_manager.h"
#include "services/worker/supervisor_link.h"

namespace adaptdl::worker {

class Leaving final : public NoticeListener {
 public:
  // All outlive it.
  Leaving(ReplicaManager* replicas, SupervisorLink* link, const Clock* clock)
      : replicas_(replicas), link_(link), clock_(clock) {}

  void OnNotice(const Notice& notice) override;
  void WhileLeaving() override { replicas_->StopLeftovers(); }
  void OnIdentity(const InstanceIdentity& identity) override { link_->SetInstance(identity.instance_id); }

  // Whether the node is known to go away.
  bool announced() const;

  // Says good-bye, and returns when the supervisor knows of the end of every replica, at the latest after `limit`, or at
  // the deadline of a notice if that is earlier.
  void Drain(absl::Duration limit);

 private:
  // Announces the notice unless an earlier end is known. Returns the deadline that counts (steady).
  absl::Time Announce(const Notice& notice);

  ReplicaManager* const replicas_;
  SupervisorLink* const link_;
  const Clock* const clock_;
  mutable Mutex mutex_;
  // When the node goes away (steady). InfiniteFuture: nobody has said so.
  absl::Time deadline_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_LEAVING_H_
