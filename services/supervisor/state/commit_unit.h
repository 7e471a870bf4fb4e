// What of a transaction is stored at once, becomes visible at once, and has its effects then. Plain values.
//
// Where the store's batches are atomic that is all of it. Elsewhere each job is a unit, with its replicas, events and
// effects. What belongs to no job comes first; then jobs that shrink, so that nobody is given, for ever, what another
// one was not made to give up; then those that go, and all others in order of submission; last the answer of the call,
// if all went well. A unit that fails changes nothing of its job, and the others stand.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STATE_COMMIT_UNIT_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STATE_COMMIT_UNIT_H_

#include <string>
#include <vector>

#include "services/supervisor/state/effects.h"
#include "services/supervisor/store/job_store.h"

namespace adaptdl::supervisor {

enum class UnitOfCommit { kTransaction, kJob };

struct CommitUnit {
  // What it is about: these jobs (uids), and whether what belongs to none.
  std::vector<std::string> jobs;
  bool others = false;
  // Whether it counts only if all units before it were stored.
  bool closes = false;
  WriteBatch batch;
  Effects effects;
  // Whether the allocator sees another cluster after it.
  bool scheduling_changed = false;

  // Takes over what another one has.
  void Merge(CommitUnit other);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STATE_COMMIT_UNIT_H_
