// Where the supervisor keeps what must survive it: SQLite (sqlite_job_store.h), objects of Kubernetes (kubernetes/store),
// and memory for tests (memory_job_store.h); two more guard another one (leased_, fenced_job_store.h).
//
// The caller (state/core.h) is the only writer. It holds the state in memory, which follows the store: it is
// read once, at the start, and changes only after a Commit() that succeeded. So a store is written all the
// time and by one thread after the other, and what is read later is history: events, replicas that have
// ended, answers of requests. What a backend promises:
//
// Batches. Commit() is all or nothing, for everybody and for ever: no call and no later start sees half of a
// batch, whatever died in between. A batch holds a few records as a rule, and some thousands after a decision
// on a whole cluster. A backend that can change one object at a time only (the Kubernetes API) says so
// (atomic_batches()): then a batch is about one job at most, with its replicas and events, or about none
// (state/commit_unit.h).
//
// Order. Batches take effect in the order of the calls. Whoever reads after Commit() has returned OK reads
// what it wrote, also through another call and before a Sync().
//
// Durability. What Commit() has taken survives the end of the process; a Sync() after it makes it survive that
// of the machine as well. Nobody outside learns of a change before (state/group_commit.h), and one Sync()
// serves all commits before it: it may be slow, while a Commit() holds up all other changes. A backend whose
// commits are durable when they return says so (needs_sync()).
//
// Numbers. JobRecord::sequence and the ids of events are the caller's and grow. Load() says the largest ones
// that were ever used, also by what was deleted or pruned since: they are never used again. The same holds for
// the groups of a job as long as it lives (jobs::Job::last_group), and for launch_group and launch_rank
// together within it: they are the key of a replica, while its group and rank of today change.
//
// One writer. A store does not let two processes write: SQLite's holds the lock of its file, and a backend
// without one compares versions and refuses to go on when an object is not as it left it. That alone is no
// leadership: FencedJobStore begins no commit, and lets nothing follow from one, unless the lease is valid. So
// a leader that was overtaken may still write for a moment, but what it wrote counts only if the next leader
// has read it, and was told to nobody else.
//
// Errors. After an error of Commit() nothing has changed, and the caller goes on with what it has in memory:
// the client is told, and what the supervisor does by itself is tried again with its next step. If a backend
// can't know whether a write has happened (a connection broke), it finds out before it returns, or treats the
// store as lost. After an error of Sync() nobody knows what is durable: the process ends, and the next one
// reads what there is. An error of Load() or of a read changes nothing.
//
// Damage. A record that can't be read does not keep the others from being served: it stays as it is, and
// StoreContents names it.
//
// Sizes. A job is what its user asked for, of which only numbers change and which has at most 256 KiB (libs/jobspec/limits.h),
// and its state (stored_job.proto), which is written with each of its changes: one or two KiB, and a node's id
// for each replica of its group, of the allocation that it is to have, and of each of its plans. A job may have
// 16,384 replicas; no text is longer than 16 KiB. Replicas and events have less than one KiB as a rule. The
// answer of a request may hold a whole job.
//
// Thread-safe: reads may come at any time and from any thread, also while a commit or a sync goes on.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_JOB_STORE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_JOB_STORE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/supervisor/store/costs.h"
#include "services/supervisor/store/joins.h"
#include "services/supervisor/store/records.h"

namespace adaptdl::supervisor {

// A message in the store that could not be read as it was.
struct DamagedRow {
  std::string table;
  std::string column;
  // Names the row.
  std::vector<std::string> key;
  // Of the job that it belongs to. Empty: to none.
  std::string name_space;
  std::string job;
  std::string job_uid;
  // Whether it can be read now: only text in it was wrong. Else the row stays as it is, and is left out of
  // what is served.
  bool mended = false;
  // Whether no earlier start has met it.
  bool is_new = true;
};

// A job whose row can't be read. Nobody else may have its name.
struct JobSetAside {
  std::string name_space;
  std::string name;
  std::string uid;
};

// Everything that is read at start.
struct StoreContents {
  std::vector<JobRecord> jobs;  // In order of submission.
  // Of each job: replicas of the current group in order of rank, then others that may still be there.
  std::vector<ReplicaRecord> replicas;
  std::vector<NodeRecord> nodes;
  std::vector<FileDeletion> deletions;
  std::vector<v1::NamespaceQuota> quotas;
  CostContents costs;
  std::vector<JoinRecord> joins;
  std::vector<DamagedRow> damaged;
  std::vector<JobSetAside> set_aside;
  // Largest ever used, also by what was deleted since.
  int64_t last_sequence = 0;
  int64_t last_event_id = 0;
};

// One transaction. Put means insert or replace.
struct WriteBatch {
  std::vector<JobRecord> put_jobs;
  std::vector<ReplicaRecord> put_replicas;
  std::vector<NodeRecord> put_nodes;
  std::vector<v1::Event> add_events;
  // By id; also of those that are added.
  std::vector<int64_t> remove_events;
  std::optional<RequestRecord> put_request;
  std::vector<FileDeletion> add_deletions;
  // With their replicas and events.
  std::vector<std::string> delete_jobs;
  std::vector<std::string> delete_nodes;
  // Drops the deletions of these nodes, and those of one job (uid) on one node.
  std::vector<std::string> finish_deletions;
  std::vector<std::pair<std::string, std::string>> remove_deletions;
  std::vector<v1::NamespaceQuota> put_quotas;
  // By namespace.
  std::vector<std::string> delete_quotas;
  CostChanges costs;
  std::vector<JoinRecord> put_joins;
  // By id.
  std::vector<std::string> delete_joins;

  bool empty() const {
    return put_jobs.empty() && put_replicas.empty() && put_nodes.empty() && add_events.empty() &&
           remove_events.empty() && !put_request.has_value() && add_deletions.empty() &&
           delete_jobs.empty() && delete_nodes.empty() && finish_deletions.empty() &&
           remove_deletions.empty() && put_quotas.empty() && delete_quotas.empty() && costs.empty() &&
           put_joins.empty() && delete_joins.empty();
  }
};

struct EventQuery {
  std::string name_space;
  // Empty: all jobs of the namespace.
  std::string job;
  // Only events with a larger id.
  int64_t after_id = 0;
  int limit = 100;
  // The answer ends with the event that goes beyond so many bytes.
  size_t max_bytes = std::numeric_limits<size_t>::max();
};

class JobStore {
 public:
  virtual ~JobStore() = default;

  // `now`: wall time, at which damage that nobody has met before is noted.
  virtual absl::StatusOr<StoreContents> Load(absl::Time now) = 0;

  // RESOURCE_EXHAUSTED: the disk is full. UNAVAILABLE: it can't be written, or this process may not write any
  // more. FAILED_PRECONDITION: what the backend needs for it is not there, as the text says. Nothing has changed then.
  virtual absl::Status Commit(const WriteBatch& batch) = 0;

  // Whether a batch may be about several jobs.
  virtual bool atomic_batches() const { return true; }

  // Whether Sync() does anything.
  virtual bool needs_sync() const = 0;
  // Brings everything that was committed before to the disk. Does not hold up other calls. After an error,
  // what is on the disk is unknown: open the store anew.
  virtual absl::Status Sync() = 0;

  // In order of id.
  virtual absl::StatusOr<std::vector<v1::Event>> ListEvents(const EventQuery& query) = 0;

  // Replicas of all groups of a job, in the order in which they were launched.
  virtual absl::StatusOr<std::vector<ReplicaRecord>> ListReplicas(const std::string& job_uid) = 0;

  virtual absl::StatusOr<std::optional<RequestRecord>> FindRequest(const std::string& caller,
                                                                   const std::string& name_space,
                                                                   const std::string& request_id) = 0;

  // Forgets requests that were made before `time`.
  virtual absl::Status PruneRequests(absl::Time time) = 0;
  // Forgets events of before `time`, the oldest ones first, and some ten thousand of them at most.
  virtual absl::Status PruneEvents(absl::Time time) = 0;
  // Forgets the job's replicas that have ended, but for the newest `keep` and those of the current group.
  virtual absl::Status PruneReplicas(const std::string& job_uid, int keep) = 0;

  // Copies everything, as of one moment, to a new file beside the original while others go on to commit. The
  // caller removes it. FAILED_PRECONDITION: this store keeps nothing on disk.
  virtual absl::StatusOr<std::string> Backup() = 0;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_JOB_STORE_H_
