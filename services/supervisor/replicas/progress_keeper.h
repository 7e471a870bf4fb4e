// How far jobs are and what they have learnt of themselves: reported often, stored once in a while. A crash
// loses at most what came since. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_PROGRESS_KEEPER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_PROGRESS_KEEPER_H_

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "adaptdl/v1/hints.pb.h"
#include "adaptdl/v1/job.pb.h"
#include "libs/base/mutex.h"
#include "services/supervisor/replicas/replica_sessions.h"
#include "services/supervisor/state/core.h"
#include "services/supervisor/state/transaction.h"

namespace adaptdl::supervisor {

class ProgressKeeper {
 public:
  // Both outlive it. `period`: how often progress and hints are stored.
  ProgressKeeper(Core* core, ReplicaSessions* sessions, absl::Duration period)
      : core_(core), sessions_(sessions), period_(period) {}

  // Told of all progress that comes, by jobs' uids, before it is stored. Set before the first Step().
  using Observer = std::function<void(const std::map<std::string, v1::TrainingProgress>&)>;
  void SetObserver(Observer observer) { observer_ = std::move(observer); }

  // What a job has learnt of itself: stored with the next flush.
  void Keep(const std::string& job_uid, const v1::Hints& hints);
  // The progress that came last, if any is not stored yet: whoever sees a job end sees how far it came.
  void StoreLatest(Transaction* transaction, const std::string& uid);
  // Stores what has come, once per period. Called by one thread.
  void Step();

 private:
  Core* const core_;
  ReplicaSessions* const sessions_;
  const absl::Duration period_;
  Observer observer_;
  absl::Time next_ = absl::InfinitePast();  // Used in Step() only.
  Mutex mutex_;
  // Not stored yet.
  std::map<std::string, v1::Hints> new_hints_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_PROGRESS_KEEPER_H_
