// A change of the supervisor's state that is being prepared: copies of the entries that it edits, events, and
// what is to be done once it is stored. Nothing of it is visible to anybody before the core has stored it and
// calls Apply(). Not thread-safe.
//
// It is stored in units (commit_unit.h): all at once, or job by job where the store can't do that.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STATE_TRANSACTION_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STATE_TRANSACTION_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/jobs/state_machine.h"
#include "services/supervisor/state/change_hub.h"
#include "services/supervisor/state/commit_unit.h"
#include "services/supervisor/state/effects.h"
#include "services/supervisor/state/tables.h"
#include "services/supervisor/store/job_store.h"

namespace adaptdl::supervisor {

class Transaction {
 public:
  // `base` outlives the transaction and does not change meanwhile, except by Apply().
  Transaction(const Tables& base, const Moment& now)
      : base_(base), now_(now), sequence_(base.last_sequence) {}

  // When it was begun: for whatever lasts, and what people read and what is stored.
  absl::Time now() const { return now_.steady; }
  absl::Time wall() const { return now_.wall; }
  const Moment& moment() const { return now_; }

  // What it started from.
  const Tables& base() const { return base_; }

  // The job as this transaction leaves it; null if there is none.
  const JobEntry* FindJob(const std::string& uid) const;
  const JobEntry* FindJobByName(const std::string& name_space, const std::string& name) const;
  // The job, to be changed. It exists.
  JobEntry* EditJob(const std::string& uid);
  // The same for news that are not worth a write, such as wordings: they are stored with the job's next
  // change, and lost if the supervisor ends before.
  JobEntry* EditJobInMemory(const std::string& uid);
  // Gives the record its place in the order.
  JobEntry* AddJob(JobRecord record);
  void DeleteJob(const std::string& uid);
  // `index`: in JobEntry::replicas.
  ReplicaRecord* EditReplica(const std::string& uid, int index);
  // All jobs that have not finished, in order of submission.
  std::vector<const JobEntry*> ActiveJobs() const;
  // Their uids, in order of submission; see WaitsForRoom().
  std::vector<std::string> JobsWaitingForRoom() const;

  const NodeEntry* FindNode(const std::string& id) const;
  // The node, to be changed. It exists.
  NodeEntry* EditNode(const std::string& id);
  // The same for what is soft: it is not stored, and nobody is told of it.
  NodeEntry* EditNodeInMemory(const std::string& id);
  NodeEntry* AddNode(NodeEntry entry);
  void DeleteNode(const std::string& id);
  // Of a new session, larger than all before.
  int64_t NextSession();

  // Pairs of nodes that are kept apart.
  const Separations& separations() const { return separations_ ? *separations_ : base_.separations; }
  Separations* EditSeparations();

  // What this transaction leaves of the node to others.
  NodeUse::Use UseOf(const std::string& node_id) const;
  // Nodes of which this transaction changes the use.
  std::vector<std::string> NodesInPlay() const;

  void PutQuota(v1::NamespaceQuota quota) { batch_.put_quotas.push_back(std::move(quota)); }
  void DeleteQuota(const std::string& name_space) { batch_.delete_quotas.push_back(name_space); }

  void PutJoin(JoinRecord join) { batch_.put_joins.push_back(std::move(join)); }
  void DeleteJoin(const std::string& id) { batch_.delete_joins.push_back(id); }

  void PutCosts(CostChanges costs) { batch_.costs = std::move(costs); }

  // A job was submitted in the namespace.
  void NoteSubmission(const std::string& name_space) { submissions_.push_back(name_space); }

  // `event.replicas` is filled in at the end.
  void AddEvent(const std::string& uid, const jobs::Event& event);
  // The same for what replicas and nodes can make happen again and again: takes the place of the last one of
  // its kind, if that was not long ago, and counts for both. `before`: some that were not told.
  void AddRepeatedEvent(const std::string& uid, const jobs::Event& event, const Repetition& before);
  // The kind of the event.
  static EventKey KeyOf(const jobs::Event& event, int64_t group) { return {event.reason, event.node, group}; }

  void SetRequest(RequestRecord request) { batch_.put_request = std::move(request); }
  void AddDeletion(FileDeletion deletion) {
    job_batches_[deletion.job_uid].add_deletions.push_back(std::move(deletion));
  }
  void FinishDeletions(const std::string& node_id) { batch_.finish_deletions.push_back(node_id); }
  void FinishDeletion(const std::string& node_id, const std::string& job_uid) {
    job_batches_[job_uid].remove_deletions.emplace_back(node_id, job_uid);
  }

  // Hints or wordings changed: the allocator wants to see them, though the version stays.
  void ShowToAllocator() { shown_ = true; }
  // Those who follow the changed jobs need not hear of it.
  void KeepQuiet() { quiet_ = true; }
  // A replica ended or a node changed: jobs that wait for room may go on.
  void FreeRoom() { room_freed_ = true; }
  bool TakeRoomFreed() { return std::exchange(room_freed_, false); }

  // What follows from what becomes of the job; kNoJob: from the rest.
  static constexpr char kNoJob[] = "";
  Effects* EffectsOf(const std::string& job_uid) { return &effects_[job_uid]; }

  // Whether there are changes, and none that is to be stored.
  bool in_memory_only() const {
    return !jobs_.empty() && stored_.empty() && deleted_jobs_.empty() && stored_nodes_.empty() &&
           deleted_nodes_.empty() && batch_.empty() && job_batches_.empty();
  }
  // Whether nothing was edited.
  bool empty() const {
    return jobs_.empty() && deleted_jobs_.empty() && nodes_.empty() && deleted_nodes_.empty() &&
           batch_.empty() && job_batches_.empty() && !separations_.has_value() && submissions_.empty();
  }
  // Whether nothing follows from it either.
  bool changes_nothing() const { return empty() && effects_.empty() && !room_freed_; }
  // Whether the allocator would see another cluster.
  bool SchedulingChanged() const;

  // Completes the events. What is to be stored, in this order: all text in it is valid UTF-8 and bounded, whatever
  // was put in, and so is what Apply() will show. There is one unit at least.
  std::vector<CommitUnit> Finish(UnitOfCommit unit_of_commit);
  // How many texts Finish() had to change. Whoever puts them in bounds them, so this tells of a mistake.
  int texts_mended() const { return texts_mended_; }
  // After the unit was stored: moves its change into `tables`, which are those it was based on. Returns what
  // changed.
  Changes Apply(const CommitUnit& unit, Tables* tables);

 private:
  struct NewEvent {
    v1::Event event;
    // Whether it may be folded with others.
    bool repeats = false;
  };

  // The group and the rank that a replica was launched with.
  using ReplicaKey = std::pair<int64_t, int>;
  static ReplicaKey KeyOf(const ReplicaRecord& replica) {
    return {replica.launch_group, replica.launch_rank};
  }

  // Whether the job's replica at this place is the one that was there before this transaction.
  bool IsUnchanged(const JobEntry& job, size_t index) const;
  void CompleteEvents(const std::string& uid);
  void BoundTexts();
  // Whether the allocator would look at the job, or at what belongs to none, with other eyes.
  bool JobLooksDifferent(const std::string& uid) const;
  bool OthersLookDifferent() const;
  // Whether it has fewer replicas than before, or is to have fewer.
  bool Shrinks(const std::string& uid) const;
  // What is to be stored of the job, but for its events.
  void PutRecords(const std::string& uid, WriteBatch* batch) const;
  CommitUnit UnitOfJob(const std::string& uid, int64_t* event_id);
  CommitUnit UnitOfOthers();
  // Those of which something is stored or shown, or from which something follows; in the order of their units.
  std::vector<std::string> ConcernedJobs() const;
  void ApplyJob(const std::string& uid, Tables* tables, Changes* changes);
  void ApplyOthers(const WriteBatch& batch, Tables* tables, Changes* changes);
  // Counts the event together with the last one of its kind, and has that one removed.
  void Fold(JobEntry* job, v1::Event* event, WriteBatch* batch);
  // Brings `use_` up to date.
  void CountEdited() const;

  const Tables& base_;
  const Moment now_;
  int64_t sequence_;
  std::map<std::string, std::shared_ptr<JobEntry>> jobs_;
  // Those of them that are to be stored.
  std::set<std::string> stored_;
  std::set<std::string> deleted_jobs_;
  std::map<std::string, std::shared_ptr<NodeEntry>> nodes_;
  // Those of them that are to be stored.
  std::set<std::string> stored_nodes_;
  std::set<std::string> deleted_nodes_;
  // Replicas that this transaction has its own copy of, by job and what stays the same about a replica. Some
  // may have left their job since: they are stored all the same.
  std::map<std::string, std::map<ReplicaKey, std::shared_ptr<ReplicaRecord>>> replicas_;
  std::map<std::string, std::vector<NewEvent>> events_;  // By job.
  std::optional<int64_t> session_;
  std::optional<Separations> separations_;
  std::vector<std::string> submissions_;  // Namespaces.
  // By how much the use of nodes differs from the base's, without what was edited since it was counted; and
  // the shares of edited jobs that were counted.
  mutable NodeUse use_;
  mutable std::map<std::string, JobShare> counted_;
  mutable std::set<std::string> uncounted_;
  // What is put in as it is to be stored: of no job, and by job.
  WriteBatch batch_;
  std::map<std::string, WriteBatch> job_batches_;
  std::map<std::string, Effects> effects_;  // By job.
  int texts_mended_ = 0;
  bool shown_ = false;
  bool quiet_ = false;
  bool room_freed_ = false;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STATE_TRANSACTION_H_
