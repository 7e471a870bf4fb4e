// The core of the supervisor: the truth of the cluster (jobs, nodes, allocations, replicas, quotas), in
// memory and in the store, and its single writer. It knows none of the managers that stand on it.
//
// Every change goes the same way: a manager fills a Transaction in Update() or UpdateOnce(); if room became
// free, the follow-up says what other jobs do with it; the store takes all of it at once, or job by job
// (commit_unit.h); only then it is visible. Watchers are told, and effects leave, when it is durable
// (group_commit.h). What the store refuses has not happened: what managers keep beside the store and a change
// concerns lives in the entries, and changes with them.
//
// Reads go to an index of what was committed last (read_index.h), without the core's lock; Read() is for
// those who must see several tables at one moment.
//
// Thread-safe: one mutex guards the tables. All errors are those that clients see.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STATE_CORE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STATE_CORE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/messages/text.h"
#include "services/supervisor/lease/leader_lease.h"
#include "services/supervisor/state/change_hub.h"
#include "services/supervisor/state/effects.h"
#include "services/supervisor/state/group_commit.h"
#include "services/supervisor/state/invariants.h"
#include "services/supervisor/state/metrics.h"
#include "services/supervisor/state/read_index.h"
#include "services/supervisor/state/request_key.h"
#include "services/supervisor/state/tables.h"
#include "services/supervisor/state/transaction.h"
#include "services/supervisor/store/job_store.h"

namespace adaptdl::supervisor {

// (namespace, name)
using JobNames = std::set<std::pair<std::string, std::string>>;

// None is owned; all outlive the core.
struct CoreParts {
  JobStore* store = nullptr;
  ChangeHub* hub = nullptr;
  GroupCommit* durability = nullptr;
  Invariants* invariants = nullptr;
  const Clock* clock = nullptr;
  // Of this supervisor. Null: there is no other one.
  const LeaderLease* lease = nullptr;
};

class Core {
 public:
  using Change = absl::FunctionRef<absl::Status(Transaction*)>;

  // `request_lifetime`: how long the answers of calls are kept for their repetition.
  Core(const CoreParts& parts, absl::Duration request_lifetime)
      : parts_(parts), request_lifetime_(request_lifetime) {}

  // What the supervisor knows at its start (load.h). Before anything else.
  void Fill(Tables tables, JobNames unreadable_jobs);
  // What other jobs do with room that a change has freed, within the same transaction. Set before changes.
  void SetFollowUp(std::function<void(Transaction*)> follow_up) { follow_up_ = std::move(follow_up); }
  // Carries effects out; called by the thread of GroupCommit. Set before changes.
  void SetEffectRunner(std::function<void(const Effects&)> run) { run_effects_ = std::move(run); }
  // From now on counts there. `metrics` outlives the core.
  void SetMetrics(Metrics* metrics) { metrics_ = metrics; }
  // May be null.
  Metrics* metrics() const { return metrics_; }

  Moment Now() const { return parts_.clock->Both(); }
  // Of the leadership of now (v1::RegisterNodeResponse). 0: there is none.
  int64_t term() const { return parts_.lease == nullptr ? 0 : parts_.lease->term(); }
  // Whether this supervisor may lead.
  bool leads() const { return parts_.lease == nullptr || parts_.lease->Valid(); }
  // What a call that ended with `status` is told. While another supervisor may lead this one knows nothing
  // for sure: any failure is UNAVAILABLE then, and the caller asks again, or asks the other one.
  absl::Status UnavailableUnlessLeading(const absl::Status& status) const;

  // Makes a change, and stores it if there is one. Nothing happens if `change` fails.
  absl::Status Update(Change change) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same once per request: what it was answered is stored with the change, and answered again.
  template <typename Response>
  absl::StatusOr<Response> UpdateOnce(const RequestKey& key,
                                      absl::FunctionRef<absl::StatusOr<Response>(Transaction*)> change)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Shows the tables as they are. `look` must not wait.
  void Read(absl::FunctionRef<void(const Tables&)> look) const ABSL_LOCKS_EXCLUDED(mutex_);
  const ReadIndex& index() const { return index_; }

  // Namespaces and names of jobs whose records can't be read: they are taken, still.
  const JobNames& unreadable_jobs() const { return unreadable_jobs_; }

  JobStore* store() const { return parts_.store; }
  Invariants* invariants() const { return parts_.invariants; }

 private:
  // What the request was answered before, if it was. INVALID_ARGUMENT: its id was used for another one.
  absl::StatusOr<std::optional<RequestRecord>> FindAnswer(const RequestKey& key, absl::Time now) const;
  // The first error, if there is one. A store that is UNAVAILABLE is not asked for the rest.
  absl::Status Commit(Transaction* transaction) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CommitUnitOf(Transaction* transaction, CommitUnit unit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Shows readers what was committed.
  void Publish(const Changes& changes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const CoreParts parts_;
  const absl::Duration request_lifetime_;
  std::function<void(Transaction*)> follow_up_;
  std::function<void(const Effects&)> run_effects_;
  std::atomic<Metrics*> metrics_ = nullptr;
  // Written by Fill() only.
  JobNames unreadable_jobs_;
  ReadIndex index_;
  mutable Mutex mutex_;
  Tables tables_ ABSL_GUARDED_BY(mutex_);
};

// ---- Implementation only ----

template <typename Response>
absl::StatusOr<Response> Core::UpdateOnce(const RequestKey& key,
                                          absl::FunctionRef<absl::StatusOr<Response>(Transaction*)> change) {
  MutexLock lock(&mutex_);
  const Moment now = Now();
  const absl::StatusOr<std::optional<RequestRecord>> earlier = FindAnswer(key, now.wall);
  if (!earlier.ok()) return earlier.status();
  if (earlier->has_value()) {
    Response response;
    if (!response.ParseFromString((*earlier)->response)) {
      return absl::DataLossError("request_id: the first answer to \"" + key.request_id + "\" can't be read");
    }
    // Of what an older version has answered, the answer alone tells whose it is.
    if (!(*earlier)->key.content.empty() || NamespaceOf(response) == key.name_space) return response;
  }
  Transaction transaction(tables_, now);
  absl::StatusOr<Response> response = change(&transaction);
  if (!response.ok()) return response.status();
  messages::BoundText(std::string::npos, &*response);
  // What leaves no trace on disk may as well be done again.
  if (!transaction.in_memory_only()) {
    transaction.SetRequest({key, response->SerializeAsString(), now.wall});
  }
  if (const absl::Status status = Commit(&transaction); !status.ok()) return status;
  return response;
}

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STATE_CORE_H_
