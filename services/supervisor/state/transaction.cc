#include "services/supervisor/state/transaction.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/utf8.h"
#include "libs/messages/text.h"
#include "services/supervisor/state/job_status.h"
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

}  // namespace

const JobEntry* Transaction::FindJob(const std::string& uid) const {
  if (deleted_jobs_.count(uid) > 0) return nullptr;
  const auto edited = jobs_.find(uid);
  if (edited != jobs_.end()) return edited->second.get();
  const auto it = base_.jobs.find(uid);
  return it == base_.jobs.end() ? nullptr : it->second.get();
}

const JobEntry* Transaction::FindJobByName(const std::string& name_space, const std::string& name) const {
  const auto it = base_.by_name.find({name_space, name});
  return it == base_.by_name.end() ? nullptr : FindJob(it->second);
}

JobEntry* Transaction::EditJob(const std::string& uid) {
  stored_.insert(uid);
  return EditJobInMemory(uid);
}

JobEntry* Transaction::EditJobInMemory(const std::string& uid) {
  uncounted_.insert(uid);
  std::shared_ptr<JobEntry>& entry = jobs_[uid];
  if (entry == nullptr) entry = std::make_shared<JobEntry>(*base_.jobs.at(uid));
  return entry.get();
}

JobEntry* Transaction::AddJob(JobRecord record) {
  record.sequence = ++sequence_;
  auto entry = std::make_shared<JobEntry>();
  entry->record = std::move(record);
  JobEntry* result = entry.get();
  stored_.insert(result->record.uid());
  uncounted_.insert(result->record.uid());
  jobs_[result->record.uid()] = std::move(entry);
  return result;
}

void Transaction::DeleteJob(const std::string& uid) {
  deleted_jobs_.insert(uid);
  uncounted_.insert(uid);
  jobs_.erase(uid);
  stored_.erase(uid);
  events_.erase(uid);
}

ReplicaRecord* Transaction::EditReplica(const std::string& uid, int index) {
  JobEntry* job = EditJob(uid);
  std::shared_ptr<ReplicaRecord>& own = replicas_[uid][KeyOf(*job->replicas[index])];
  if (own == nullptr) {
    own = std::make_shared<ReplicaRecord>(*job->replicas[index]);
    job->replicas[index] = own;
  }
  return own.get();
}

std::vector<const JobEntry*> Transaction::ActiveJobs() const {
  std::vector<const JobEntry*> jobs;
  for (const auto& [sequence, uid] : base_.active) {
    const JobEntry* job = FindJob(uid);
    if (job != nullptr && !jobs::IsTerminal(job->record.state.phase)) jobs.push_back(job);
  }
  return jobs;
}

std::vector<std::string> Transaction::JobsWaitingForRoom() const {
  std::map<int64_t, std::string> waiting = base_.waiting;
  for (const std::string& uid : deleted_jobs_) waiting.erase(base_.jobs.at(uid)->record.sequence);
  for (const auto& [uid, entry] : jobs_) {
    if (WaitsForRoom(entry->record)) {
      waiting.emplace(entry->record.sequence, uid);
    } else {
      waiting.erase(entry->record.sequence);
    }
  }
  std::vector<std::string> uids;
  uids.reserve(waiting.size());
  for (const auto& [sequence, uid] : waiting) uids.push_back(uid);
  return uids;
}

const NodeEntry* Transaction::FindNode(const std::string& id) const {
  if (deleted_nodes_.count(id) > 0) return nullptr;
  const auto edited = nodes_.find(id);
  if (edited != nodes_.end()) return edited->second.get();
  const auto it = base_.nodes.find(id);
  return it == base_.nodes.end() ? nullptr : it->second.get();
}

NodeEntry* Transaction::EditNode(const std::string& id) {
  stored_nodes_.insert(id);
  return EditNodeInMemory(id);
}

NodeEntry* Transaction::EditNodeInMemory(const std::string& id) {
  std::shared_ptr<NodeEntry>& entry = nodes_[id];
  if (entry == nullptr) entry = std::make_shared<NodeEntry>(*base_.nodes.at(id));
  return entry.get();
}

NodeEntry* Transaction::AddNode(NodeEntry entry) {
  const std::string id = entry.id();
  deleted_nodes_.erase(id);
  stored_nodes_.insert(id);
  nodes_[id] = std::make_shared<NodeEntry>(std::move(entry));
  return nodes_[id].get();
}

int64_t Transaction::NextSession() {
  session_ = std::max(session_.value_or(base_.last_session) + 1, absl::ToUnixMicros(wall()));
  return *session_;
}

Separations* Transaction::EditSeparations() {
  if (!separations_.has_value()) separations_ = base_.separations;
  return &*separations_;
}

void Transaction::DeleteNode(const std::string& id) {
  nodes_.erase(id);
  stored_nodes_.erase(id);
  deleted_nodes_.insert(id);
}

void Transaction::CountEdited() const {
  for (const std::string& uid : uncounted_) {
    auto counted = counted_.find(uid);
    if (counted == counted_.end()) {
      const auto base = base_.jobs.find(uid);
      JobShare share;
      if (base != base_.jobs.end()) share = ShareOf(*base->second);
      counted = counted_.emplace(uid, std::move(share)).first;
    }
    use_.Add(counted->second, -1);
    const JobEntry* job = FindJob(uid);
    counted->second = job == nullptr ? JobShare() : ShareOf(*job);
    use_.Add(counted->second, 1);
  }
  uncounted_.clear();
}

NodeUse::Use Transaction::UseOf(const std::string& node_id) const {
  CountEdited();
  NodeUse::Use sum;
  for (const NodeUse* part : {&base_.use, static_cast<const NodeUse*>(&use_)}) {
    const NodeUse::Use* use = part->Find(node_id);
    if (use == nullptr) continue;
    sum.replicas += use->replicas;
    sum.held.Add(use->held);
    sum.wanted.Add(use->wanted);
  }
  return sum;
}

std::vector<std::string> Transaction::NodesInPlay() const {
  CountEdited();
  std::vector<std::string> ids;
  for (const auto& [id, use] : use_.nodes()) ids.push_back(id);
  return ids;
}

void Transaction::AddEvent(const std::string& uid, const jobs::Event& event) {
  const JobEntry* job = FindJob(uid);
  v1::Event& stored = events_[uid].emplace_back().event;
  *stored.mutable_time() = ToProto(now_.wall);
  stored.set_namespace_(job->record.job->namespace_());
  stored.set_job(job->record.job->name());
  stored.set_job_uid(uid);
  stored.set_type(event.warning ? v1::EVENT_TYPE_WARNING : v1::EVENT_TYPE_NORMAL);
  stored.set_reason(event.reason);
  stored.set_message(event.message);
  stored.set_group(job->record.state.group);
  stored.set_node_id(event.node);
  stored.set_replica_id(event.replica_id);
  // The job is written with its event.
  EditJob(uid);
}

void Transaction::AddRepeatedEvent(const std::string& uid, const jobs::Event& event,
                                   const Repetition& before) {
  AddEvent(uid, event);
  NewEvent& added = events_[uid].back();
  added.repeats = true;
  if (before.count == 0) return;
  added.event.set_count(before.count + 1);
  *added.event.mutable_first_time() = ToProto(before.first);
}

void Transaction::Fold(JobEntry* job, v1::Event* event) {
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
    batch_.remove_events.push_back(earlier->second.event_id);
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

const WriteBatch& Transaction::Finish() {
  int64_t event_id = base_.last_event_id;
  for (const std::string& uid : stored_) CompleteEvents(uid);
  BoundTexts();
  for (const std::string& uid : stored_) {
    const std::shared_ptr<JobEntry>& entry = jobs_.at(uid);
    batch_.put_jobs.push_back(ForStore(entry->record, now_));
    const auto& edited = replicas_[uid];
    for (const auto& [key, replica] : edited) batch_.put_replicas.push_back(*replica);
    for (size_t i = 0; i < entry->replicas.size(); ++i) {
      const ReplicaRecord& replica = *entry->replicas[i];
      const bool is_new = !IsUnchanged(*entry, i) && !edited.contains(KeyOf(replica));
      if (is_new) batch_.put_replicas.push_back(replica);
    }
    for (auto& [event, repeats] : events_[uid]) {
      event.set_id(++event_id);
      if (repeats) Fold(entry.get(), &event);
      batch_.add_events.push_back(event);
    }
  }
  for (const std::string& id : stored_nodes_) batch_.put_nodes.push_back(nodes_.at(id)->record);
  batch_.delete_jobs.assign(deleted_jobs_.begin(), deleted_jobs_.end());
  batch_.delete_nodes.assign(deleted_nodes_.begin(), deleted_nodes_.end());
  return batch_;
}

bool Transaction::SchedulingChanged() const {
  if (!stored_nodes_.empty() || !deleted_nodes_.empty() || !deleted_jobs_.empty()) return true;
  if (!batch_.put_quotas.empty() || !batch_.delete_quotas.empty()) return true;
  for (const auto& [uid, entry] : jobs_) {
    const auto it = base_.jobs.find(uid);
    if (it == base_.jobs.end() || LooksDifferent(*it->second, *entry)) return true;
  }
  return false;
}

Changes Transaction::Apply(Tables* tables) {
  Changes changes;
  const bool scheduling_changed = SchedulingChanged();
  changes.cluster = scheduling_changed || shown_;
  if (scheduling_changed) changes.version = ++tables->version;
  for (const std::string& uid : deleted_jobs_) {
    changes.deleted[uid] = DescribeJob(*tables->jobs.at(uid), now_);
    EraseJob(uid, tables);
  }
  for (const auto& [uid, entry] : jobs_) {
    changes.jobs.emplace(uid, JobChange{entry->record.job->namespace_(), !quiet_});
    PutJob(entry, tables);
  }
  for (const std::string& id : deleted_nodes_) {
    changes.nodes.insert(id);
    tables->nodes.erase(id);
  }
  changes.nodes.insert(stored_nodes_.begin(), stored_nodes_.end());
  for (const auto& [id, entry] : nodes_) tables->nodes[id] = entry;
  for (const FileDeletion& deletion : batch_.add_deletions)
    tables->deletions[deletion.node_id][deletion.job_uid] = deletion;
  for (const std::string& id : batch_.finish_deletions) tables->deletions.erase(id);
  for (const auto& [id, uid] : batch_.remove_deletions) {
    const auto node = tables->deletions.find(id);
    if (node == tables->deletions.end()) continue;
    node->second.erase(uid);
    if (node->second.empty()) tables->deletions.erase(node);
  }
  changes.quotas = !batch_.put_quotas.empty() || !batch_.delete_quotas.empty();
  for (const v1::NamespaceQuota& quota : batch_.put_quotas) tables->quotas[quota.namespace_()] = quota;
  for (const std::string& name : batch_.delete_quotas) tables->quotas.erase(name);
  if (separations_.has_value()) tables->separations = *std::move(separations_);
  for (const std::string& name : submissions_) tables->submissions.Note(name, now_);
  if (session_.has_value()) tables->last_session = *session_;
  tables->last_sequence = sequence_;
  tables->last_event_id += static_cast<int64_t>(batch_.add_events.size());
  return changes;
}

}  // namespace adaptdl::supervisor
