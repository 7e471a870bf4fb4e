// What replicas and nodes report is bounded, however often they do it: a few reports at once and then one
// every few seconds are stored and told, by job, and what comes in between is counted and told with the next.
//
// What is held back is soft, as it is little worth. Thread-safe; it may be called within a change.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_REPORT_LIMITER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_REPORT_LIMITER_H_

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/base/token_buckets.h"
#include "libs/jobs/state_machine.h"
#include "services/supervisor/state/core.h"
#include "services/supervisor/state/job_entry.h"
#include "services/supervisor/state/transaction.h"

namespace adaptdl::supervisor {

class ReportLimiter {
 public:
  // `core` outlives it.
  explicit ReportLimiter(Core* core) : core_(core) {}

  // Whether one more report of this job (uid), replica or node (id) may be stored and told now.
  bool Take(const std::string& who, absl::Time now);
  // How long until then.
  absl::Duration Wait(const std::string& who, absl::Time now) const;

  // An event that can be brought about again and again: told with the change, or later if there are too many.
  void Report(Transaction* transaction, const std::string& uid, const jobs::Event& event);
  // Why checkpoints of the job fail; empty: they do not. `event` tells of it, if it is news.
  void ReportCheckpoint(Transaction* transaction, const std::string& uid, const std::string& error,
                        const jobs::Event& event);

  // Tells what was held back, as far as it is time for it.
  void Step();

 private:
  struct Held {
    // The latest of each kind, and how many there were.
    std::map<EventKey, std::pair<jobs::Event, Repetition>> events;
    // Of the job's record.
    std::optional<std::string> checkpoint_error;
  };

  void HoldBack(const std::string& uid, const jobs::Event& event, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What it is time to tell, by job; what belongs to jobs that are gone is forgotten.
  std::map<std::string, Held> TakeDue(const Transaction& transaction);
  void Return(std::map<std::string, Held> held);

  // So many reports at once, and one per period.
  static constexpr int kBurst = 20;
  static constexpr absl::Duration kPeriod = absl::Seconds(5);

  Core* const core_;
  mutable Mutex mutex_;
  TokenBuckets buckets_ ABSL_GUARDED_BY(mutex_) = {kBurst, kPeriod};
  std::map<std::string, Held> held_ ABSL_GUARDED_BY(mutex_);  // By job.
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_REPORT_LIMITER_H_
