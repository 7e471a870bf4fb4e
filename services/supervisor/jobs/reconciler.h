// Brings jobs on: asks the state machine of libs/jobs what follows from what is observed and wanted of a job,
// and has it done, all within one transaction.
//
// If the state machine throws, the job is left alone for a while, and the exception goes on to the guard of
// whoever asked: nothing of the transaction is stored.
//
// Thread-safe; transactions are used by one thread.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_JOBS_RECONCILER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_JOBS_RECONCILER_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/jobs/state_machine.h"
#include "services/supervisor/jobs/orders.h"
#include "services/supervisor/jobs/pulse_source.h"
#include "services/supervisor/jobs/separator.h"
#include "services/supervisor/state/core.h"
#include "services/supervisor/state/transaction.h"

namespace adaptdl::supervisor {

class Reconciler {
 public:
  // All outlive it.
  Reconciler(Core* core, const jobs::Policy& policy, const Orders* orders, Separator* separator,
             PulseSource* pulses)
      : core_(core),
        policy_(policy),
        orders_(orders),
        separator_(separator),
        pulses_(pulses),
        rejoin_deadline_(core->Now().steady + policy.rejoin_patience) {}

  // Asks the state machine until nothing more follows for this job.
  void Reconcile(Transaction* transaction, const std::string& uid);
  // The same for all jobs that want nodes which they do not have yet: room became free.
  void ReconcileWaiting(Transaction* transaction);
  // Leaves the job alone until then; the first step after that looks at it.
  void SetAside(const std::string& uid, absl::Time until);
  // Jobs of which something is due by the clock. Called by one thread.
  void Step();

 private:
  bool IsSetAside(const std::string& uid, absl::Time now) const;
  // Whether replicas of the job have lately said that they wait for others.
  bool IsWaiting(const std::string& uid) const;
  bool IsDue(const JobEntry& job, absl::Time now) const;
  std::vector<jobs::Replica> Observed(const Transaction& transaction, const JobEntry& job,
                                      const jobs::Job& state) const;
  // The same as Reconcile(). `goes_first`: see jobs::Desired.
  void BringOn(Transaction* transaction, const std::string& uid, bool goes_first);
  // Whether something changed.
  bool AdvanceOnce(Transaction* transaction, const std::string& uid, bool goes_first);
  void GiveOrders(Transaction* transaction, const std::string& uid, const jobs::Job& before,
                  const jobs::Outcome& outcome);

  Core* const core_;
  const jobs::Policy policy_;
  const Orders* const orders_;
  Separator* const separator_;
  PulseSource* const pulses_;
  // Who trained before this supervisor began, and has not joined again by then, will not change in place.
  const absl::Time rejoin_deadline_;
  mutable Mutex mutex_;
  // Until when jobs are left alone.
  std::map<std::string, absl::Time> set_aside_ ABSL_GUARDED_BY(mutex_);
  bool rejoin_deadline_seen_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::string> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_JOBS_RECONCILER_H_
