// The supervisor's state in memory: what the store holds, indexed, and the few things that need not survive.
// Entries are immutable; a Transaction replaces them. Not thread-safe: Core guards them.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STATE_TABLES_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STATE_TABLES_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "adaptdl/v1/node.pb.h"
#include "libs/base/mutex.h"
#include "libs/jobs/node_health.h"
#include "services/supervisor/state/job_entry.h"
#include "services/supervisor/state/node_use.h"
#include "services/supervisor/state/separations.h"
#include "services/supervisor/state/submission_window.h"
#include "services/supervisor/store/joins.h"
#include "services/supervisor/store/records.h"

namespace adaptdl::supervisor {

// Of a node's session: when the node was heard last (steady), renewed by heartbeats without a lock, and how much of its
// machine was in use then. Thread-safe.
class Lease {
 public:
  explicit Lease(absl::Time now, int protocol_version = 1) : protocol_version(protocol_version) {
    Renew(now);
  }
  void Renew(absl::Time now) { heard_nanos_.store(absl::ToUnixNanos(now), std::memory_order_relaxed); }
  absl::Time heard() const { return absl::FromUnixNanos(heard_nanos_.load(std::memory_order_relaxed)); }

  // What both sides of the session speak.
  const int protocol_version;

  // Whether the worker says when the files of a deleted job are gone; set by its hello.
  void set_confirms_deletions(bool confirms) { confirms_deletions_ = confirms; }
  bool confirms_deletions() const { return confirms_deletions_; }

  void set_use(v1::MachineUse use) {
    auto kept = std::make_shared<const v1::MachineUse>(std::move(use));
    MutexLock lock(&mutex_);
    use_.swap(kept);
  }
  // Null: the worker has not said.
  std::shared_ptr<const v1::MachineUse> use() const {
    MutexLock lock(&mutex_);
    return use_;
  }

 private:
  std::atomic<int64_t> heard_nanos_;
  std::atomic<bool> confirms_deletions_ = false;
  mutable Mutex mutex_;
  std::shared_ptr<const v1::MachineUse> use_ ABSL_GUARDED_BY(mutex_);
};

struct NodeEntry {
  NodeRecord record;
  std::shared_ptr<Lease> lease;
  // Of a quarantined one. Steady; people read the wall time in the record.
  absl::Time quarantine_end = absl::InfinitePast();
  // Soft: what replicas' ends tell of the node; that it is quarantined is stored.
  jobs::NodeHealth health;
  // Soft: whether it takes nothing new because those say so who tell of its life (nodes/observed_nodes.h).
  bool closed_by_others = false;
  // Soft: what its worker said last (v1::FreePorts); it says it again whenever it connects.
  std::vector<int> free_ports;

  const std::string& id() const { return record.node.node_id(); }
  v1::NodePhase phase() const { return record.node.status().phase(); }
};

struct Tables {
  std::unordered_map<std::string, std::shared_ptr<const JobEntry>> jobs;  // By uid.
  // In order of submission: all, those that have not finished, and of these the ones that want nodes which
  // they do not have yet.
  std::map<int64_t, std::string> by_sequence;
  std::map<int64_t, std::string> active;
  std::map<int64_t, std::string> waiting;
  std::map<std::pair<std::string, std::string>, std::string> by_name;  // (namespace, name) -> uid.
  std::map<std::string, std::shared_ptr<const NodeEntry>> nodes;
  NodeUse use;
  // Files of deleted jobs that nodes have not said to be gone, by node and job (uid).
  std::map<std::string, std::map<std::string, FileDeletion>> deletions;
  std::map<std::string, v1::NamespaceQuota> quotas;  // By namespace.
  std::map<std::string, JoinRecord> joins;           // By id.
  std::map<std::string, int> unfinished;             // Jobs in `active`, by namespace.
  // Soft: after a restart it is filled from the jobs that are still there.
  SubmissionWindow submissions;
  // Soft: whoever is concerned says so again.
  Separations separations;
  int64_t last_sequence = 0;
  int64_t last_event_id = 0;
  // The largest that a node was given.
  int64_t last_session = 0;
  // Version of the snapshot that the allocator sees.
  int64_t version = 0;
};

// Whether the job wants nodes that it does not have yet, and may get them as soon as others leave them.
bool WaitsForRoom(const JobRecord& job);

// The job enters the tables, or replaces what they hold under its uid.
void PutJob(std::shared_ptr<const JobEntry> entry, Tables* tables);

// It is there.
void EraseJob(const std::string& uid, Tables* tables);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STATE_TABLES_H_
