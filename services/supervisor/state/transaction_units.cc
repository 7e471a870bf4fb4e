// How a transaction ends: what is stored of it, unit by unit, and how it becomes visible.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/utf8.h"
#include "libs/messages/text.h"
#include "services/supervisor/state/job_status.h"
#include "services/supervisor/state/transaction.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

// Bytes of a text that is stored or shown. Whoever writes one keeps to a smaller bound of its own.
constexpr size_t kMaxText = 16 << 10;

int BoundText(std::string* text) {
  if (text->size() <= kMaxText && IsUtf8(*text)) return 0;
  *text = ToUtf8(*text, kMaxText);
  return 1;
}

// All texts of the record but what the user asked for and the tokens.
int BoundRecord(JobRecord* record) {
  jobs::Job& state = record->state;
  AllocationDecision& decision = record->decision;
  std::vector<std::string*> texts = {&state.reason, &state.message, &state.rescale_note, &decision.reason,
                                     &record->checkpoint_error};
  for (std::vector<std::string>* list : {&state.allocation, &decision.nodes, &decision.explanation}) {
    for (std::string& text : *list) texts.push_back(&text);
  }
  for (jobs::Plan& plan : state.plans) {
    for (jobs::PlanMember& member : plan.members)
      texts.insert(texts.end(), {&member.replica_id, &member.node});
  }
  int mended = 0;
  for (std::string* text : texts) mended += BoundText(text);
  if (record->hints.has_value()) mended += messages::BoundText(kMaxText, &*record->hints);
  if (record->progress.has_value()) mended += messages::BoundText(kMaxText, &*record->progress);
  return mended;
}

// With what the wall showed then in place of steady times, which mean nothing to another process.
JobRecord ForStore(JobRecord record, const Moment& now) {
  jobs::Job& state = record.state;
  state.running_since = now.ToWall(state.running_since);
  state.rescaling_since = now.ToWall(state.rescaling_since);
  for (jobs::Plan& plan : state.plans) plan.since = now.ToWall(plan.since);
  return record;
}

// How many members of the job's current group run.
int RunningReplicas(const JobEntry& job) {
  return static_cast<int>(std::count_if(job.replicas.begin(), job.replicas.end(), [&](const auto& replica) {
    return replica->replica.group() == job.record.state.group &&
           replica->replica.state() == v1::REPLICA_STATE_RUNNING;
  }));
}

int CountMembers(const JobEntry& job) {
  return static_cast<int>(std::count_if(job.replicas.begin(), job.replicas.end(), [&](const auto& replica) {
    return replica->replica.group() == job.record.state.group;
  }));
}

// Whether the allocator would look at the job with other eyes.
bool LooksDifferent(const JobEntry& before, const JobEntry& after) {
  const jobs::Job& a = before.record.state;
  const jobs::Job& b = after.record.state;
  return before.record.job != after.record.job || a.phase != b.phase || a.group != b.group ||
         a.cancel_requested != b.cancel_requested || a.failures != b.failures ||
         a.allocation != b.allocation ||
         before.record.decision.unschedulable != after.record.decision.unschedulable ||
         before.record.decision.nodes != after.record.decision.nodes;
}

int Sum(const std::map<std::string, int>& counts) {
  int sum = 0;
  for (const auto& [node, count] : counts) sum += count;
  return sum;
}

}  // namespace

void Transaction::Fold(JobEntry* job, v1::Event* event, WriteBatch* batch) {
  // So long ago, it is another story.
  constexpr absl::Duration kLongestPause = absl::Minutes(10);
  constexpr size_t kMostKinds = 16;
  auto& repetitions = job->repetitions;
  const int64_t count = std::max<int64_t>(1, event->count());
  Repetition now = {count, event->has_first_time() ? ToTime(event->first_time()) : now_, now_, event->id()};
  const EventKey key = {event->reason(), event->node_id(), event->group()};
  const auto earlier = repetitions.find(key);
  if (earlier != repetitions.end() && now.first - earlier->second.last <= kLongestPause) {
    now.count += earlier->second.count;
    now.first = std::min(now.first, earlier->second.first);
    batch->remove_events.push_back(earlier->second.event_id);
    event->set_count(now.count);
    *event->mutable_first_time() = ToProto(now.first);
  }
  repetitions[key] = now;
  if (repetitions.size() <= kMostKinds) return;
  repetitions.erase(
      std::min_element(repetitions.begin(), repetitions.end(),
                       [](const auto& a, const auto& b) { return a.second.event_id < b.second.event_id; }));
}

bool Transaction::IsUnchanged(const JobEntry& job, size_t index) const {
  const auto base = base_.jobs.find(job.record.uid());
  return base != base_.jobs.end() && index < base->second->replicas.size() &&
         base->second->replicas[index] == job.replicas[index];
}

// Every event carries the number of replicas after it, and every change of that number has an event: a reader
// can draw the job's history from its events alone.
void Transaction::CompleteEvents(const std::string& uid) {
  const JobEntry& after = *jobs_.at(uid);
  const auto base = base_.jobs.find(uid);
  const int before = base == base_.jobs.end() ? 0 : RunningReplicas(*base->second);
  const int running = RunningReplicas(after);
  if (running != before && events_[uid].empty()) {
    AddEvent(uid, {false, "ReplicasChanged",
                   absl::StrCat(running, " of ", CountMembers(after), " replicas of group ",
                                after.record.state.group, " run"),
                   "", ""});
  }
  for (NewEvent& added : events_[uid]) {
    added.event.set_replicas(running);
    // One that tells of another number stays in its place.
    added.repeats = added.repeats && running == before;
  }
}

// A string that is no UTF-8 could be stored, and sent, and never be read again. What a user asked for is not
// looked at: it came in a message that could be read.
void Transaction::BoundTexts() {
  for (const auto& [uid, entry] : jobs_) {
    texts_mended_ += BoundRecord(&entry->record);
    for (size_t i = 0; i < entry->replicas.size(); ++i) {
      const ReplicaRecord& replica = *entry->replicas[i];
      if (IsUnchanged(*entry, i)) continue;
      if (!IsUtf8(replica.address) || messages::NeedsBound(kMaxText, replica.replica)) {
        EditReplica(uid, static_cast<int>(i));
      }
    }
  }
  for (auto& [uid, replicas] : replicas_) {
    for (auto& [key, own] : replicas) {
      texts_mended_ += BoundText(&own->address) + messages::BoundText(kMaxText, &own->replica);
    }
  }
  for (auto& [uid, events] : events_) {
    for (NewEvent& added : events) texts_mended_ += messages::BoundText(kMaxText, &added.event);
  }
  for (const auto& [id, entry] : nodes_) texts_mended_ += messages::BoundText(kMaxText, &entry->record.node);
  for (v1::NamespaceQuota& quota : batch_.put_quotas) {
    texts_mended_ += messages::BoundText(kMaxText, &quota);
  }
}

bool Transaction::JobLooksDifferent(const std::string& uid) const {
  if (deleted_jobs_.contains(uid)) return true;
  const auto edited = jobs_.find(uid);
  if (edited == jobs_.end()) return false;
  const auto base = base_.jobs.find(uid);
  return base == base_.jobs.end() || LooksDifferent(*base->second, *edited->second);
}

bool Transaction::OthersLookDifferent() const {
  return !stored_nodes_.empty() || !deleted_nodes_.empty() || !batch_.put_quotas.empty() ||
         !batch_.delete_quotas.empty();
}

bool Transaction::SchedulingChanged() const {
  return OthersLookDifferent() || !deleted_jobs_.empty() ||
         std::any_of(jobs_.begin(), jobs_.end(),
                     [this](const auto& edited) { return JobLooksDifferent(edited.first); });
}

bool Transaction::Shrinks(const std::string& uid) const {
  const auto base = base_.jobs.find(uid);
  if (base == base_.jobs.end()) return false;
  const JobEntry* job = FindJob(uid);
  const JobShare before = ShareOf(*base->second);
  const JobShare after = job == nullptr ? JobShare() : ShareOf(*job);
  return Sum(after.live) < Sum(before.live) || Sum(after.wanted) < Sum(before.wanted);
}

std::vector<std::string> Transaction::ConcernedJobs() const {
  std::set<std::string> uids = deleted_jobs_;
  for (const auto& [uid, entry] : jobs_) uids.insert(uid);
  for (const auto& [uid, batch] : job_batches_) uids.insert(uid);
  for (const auto& [uid, effects] : effects_) uids.insert(uid);
  uids.erase(kNoJob);
  std::vector<std::tuple<bool, int64_t, std::string>> order;
  for (const std::string& uid : uids) {
    const JobEntry* job = FindJob(uid);
    order.emplace_back(!Shrinks(uid), job == nullptr ? 0 : job->record.sequence, uid);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::string> ordered;
  ordered.reserve(order.size());
  for (auto& [grows, sequence, uid] : order) ordered.push_back(std::move(uid));
  return ordered;
}

void Transaction::PutRecords(const std::string& uid, WriteBatch* batch) const {
  const JobEntry& entry = *jobs_.at(uid);
  batch->put_jobs.push_back(ForStore(entry.record, now_));
  const auto own = replicas_.find(uid);
  static const auto* const kNone = new std::map<ReplicaKey, std::shared_ptr<ReplicaRecord>>();
  const auto& edited = own == replicas_.end() ? *kNone : own->second;
  for (const auto& [key, replica] : edited) batch->put_replicas.push_back(*replica);
  for (size_t i = 0; i < entry.replicas.size(); ++i) {
    const ReplicaRecord& replica = *entry.replicas[i];
    const bool is_new = !IsUnchanged(entry, i) && !edited.contains(KeyOf(replica));
    if (is_new) batch->put_replicas.push_back(replica);
  }
}

CommitUnit Transaction::UnitOfJob(const std::string& uid, int64_t* event_id) {
  CommitUnit unit;
  unit.jobs = {uid};
  unit.scheduling_changed = JobLooksDifferent(uid);
  if (const auto batch = job_batches_.find(uid); batch != job_batches_.end()) unit.batch = batch->second;
  if (const auto effects = effects_.find(uid); effects != effects_.end()) {
    unit.effects = std::move(effects->second);
  }
  if (deleted_jobs_.contains(uid)) unit.batch.delete_jobs.push_back(uid);
  if (!stored_.contains(uid)) return unit;
  PutRecords(uid, &unit.batch);
  for (auto& [event, repeats] : events_[uid]) {
    event.set_id(++*event_id);
    if (repeats) Fold(jobs_.at(uid).get(), &event, &unit.batch);
    unit.batch.add_events.push_back(event);
  }
  return unit;
}

CommitUnit Transaction::UnitOfOthers() {
  CommitUnit unit;
  unit.others = true;
  unit.scheduling_changed = OthersLookDifferent();
  unit.batch = batch_;
  unit.batch.put_request.reset();
  for (const std::string& id : stored_nodes_) unit.batch.put_nodes.push_back(nodes_.at(id)->record);
  unit.batch.delete_nodes.assign(deleted_nodes_.begin(), deleted_nodes_.end());
  unit.effects = std::move(effects_[kNoJob]);
  return unit;
}

std::vector<CommitUnit> Transaction::Finish(UnitOfCommit unit_of_commit) {
  for (const std::string& uid : stored_) CompleteEvents(uid);
  BoundTexts();
  int64_t event_id = base_.last_event_id;
  std::vector<CommitUnit> units = {UnitOfOthers()};
  for (const std::string& uid : ConcernedJobs()) units.push_back(UnitOfJob(uid, &event_id));
  if (batch_.put_request.has_value()) {
    CommitUnit& answer = units.emplace_back();
    answer.closes = true;
    answer.batch.put_request = batch_.put_request;
  }
  if (unit_of_commit == UnitOfCommit::kTransaction) {
    for (size_t i = 1; i < units.size(); ++i) units[0].Merge(std::move(units[i]));
    units.resize(1);
  }
  return units;
}

void Transaction::ApplyJob(const std::string& uid, Tables* tables, Changes* changes) {
  if (deleted_jobs_.contains(uid)) {
    changes->deleted[uid] = DescribeJob(*tables->jobs.at(uid), now_);
    EraseJob(uid, tables);
    return;
  }
  const auto edited = jobs_.find(uid);
  if (edited == jobs_.end()) return;
  const JobRecord& record = edited->second->record;
  changes->jobs.emplace(uid, JobChange{record.job->namespace_(), !quiet_});
  tables->last_sequence = std::max(tables->last_sequence, record.sequence);
  PutJob(edited->second, tables);
}

void Transaction::ApplyOthers(const WriteBatch& batch, Tables* tables, Changes* changes) {
  for (const std::string& id : deleted_nodes_) {
    changes->nodes.insert(id);
    tables->nodes.erase(id);
  }
  changes->nodes.insert(stored_nodes_.begin(), stored_nodes_.end());
  for (const auto& [id, entry] : nodes_) tables->nodes[id] = entry;
  changes->quotas = !batch.put_quotas.empty() || !batch.delete_quotas.empty();
  for (const v1::NamespaceQuota& quota : batch.put_quotas) tables->quotas[quota.namespace_()] = quota;
  for (const std::string& name : batch.delete_quotas) tables->quotas.erase(name);
  for (const std::string& id : batch.delete_joins) tables->joins.erase(id);
  for (const JoinRecord& join : batch.put_joins) tables->joins[join.id] = join;
  if (separations_.has_value()) tables->separations = *std::move(separations_);
  for (const std::string& name : submissions_) tables->submissions.Note(name, now_);
  if (session_.has_value()) tables->last_session = *session_;
}

Changes Transaction::Apply(const CommitUnit& unit, Tables* tables) {
  Changes changes;
  changes.cluster = unit.scheduling_changed || (shown_ && !unit.closes);
  if (unit.scheduling_changed) changes.version = ++tables->version;
  for (const std::string& uid : unit.jobs) ApplyJob(uid, tables, &changes);
  if (unit.others) ApplyOthers(unit.batch, tables, &changes);
  for (const FileDeletion& deletion : unit.batch.add_deletions)
    tables->deletions[deletion.node_id][deletion.job_uid] = deletion;
  for (const std::string& id : unit.batch.finish_deletions) tables->deletions.erase(id);
  for (const auto& [id, uid] : unit.batch.remove_deletions) {
    const auto node = tables->deletions.find(id);
    if (node == tables->deletions.end()) continue;
    node->second.erase(uid);
    if (node->second.empty()) tables->deletions.erase(node);
  }
  for (const v1::Event& event : unit.batch.add_events)
    tables->last_event_id = std::max(tables->last_event_id, event.id());
  return changes;
}

}  // namespace adaptdl::supervisor
