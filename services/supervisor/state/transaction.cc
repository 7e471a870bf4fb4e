#include "services/supervisor/state/transaction.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {

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
    sum.kept.Add(use->kept);
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

}  // namespace adaptdl::supervisor
