#include "services/supervisor/store/memory_job_store.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "services/supervisor/store/job_codec.h"

namespace adaptdl::supervisor {
namespace {

// As another process would read it: what no store keeps is gone.
JobRecord ReadAgain(const JobRecord& record) {
  JobRecord read;
  read.sequence = record.sequence;
  read.job = record.job;
  FromStored(ToStored(record), &read);
  read.tokens = record.tokens;
  return read;
}

}  // namespace

absl::StatusOr<StoreContents> MemoryJobStore::Load(absl::Time /*now*/) {
  MutexLock lock(&mutex_);
  StoreContents contents;
  for (const auto& [uid, job] : jobs_) contents.jobs.push_back(ReadAgain(job));
  absl::c_sort(contents.jobs, [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
  for (const auto& [key, replica] : replicas_) {
    const auto job = jobs_.find(replica.job_uid);
    if (job == jobs_.end()) continue;
    const bool live = replica.replica.state() == v1::REPLICA_STATE_LAUNCHING ||
                      replica.replica.state() == v1::REPLICA_STATE_RUNNING;
    const bool member = job->second.state.group == replica.replica.group();
    if (member || live) contents.replicas.push_back(replica);
  }
  absl::c_stable_sort(contents.replicas, [&](const auto& a, const auto& b) {
    const auto key = [&](const ReplicaRecord& record) {
      const bool member = jobs_.at(record.job_uid).state.group == record.replica.group();
      return std::make_tuple(record.job_uid, !member, record.replica.rank());
    };
    return key(a) < key(b);
  });
  for (const auto& [id, node] : nodes_) contents.nodes.push_back(node);
  contents.deletions = deletions_;
  for (const auto& [name, quota] : quotas_) contents.quotas.push_back(quota);
  for (const auto& [key, row] : costs_) contents.costs.rows.push_back(row);
  contents.costs.nodes = billed_;
  for (const auto& [id, join] : joins_) contents.joins.push_back(join);
  contents.costs.currency = currency_;
  contents.last_sequence = last_sequence_;
  contents.last_event_id = last_event_id_;
  return contents;
}

absl::Status MemoryJobStore::Commit(const WriteBatch& batch) {
  MutexLock lock(&mutex_);
  if (!failure_.ok()) return failure_;
  if (!batch.empty()) ++commits_;
  for (const JobRecord& job : batch.put_jobs) {
    jobs_[job.uid()] = job;
    last_sequence_ = std::max(last_sequence_, job.sequence);
  }
  for (const ReplicaRecord& replica : batch.put_replicas) {
    replicas_[{replica.job_uid, replica.launch_group, replica.launch_rank}] = replica;
  }
  for (const NodeRecord& node : batch.put_nodes) nodes_[node.node.node_id()] = node;
  for (const v1::Event& event : batch.add_events) {
    events_[event.id()] = event;
    last_event_id_ = std::max(last_event_id_, event.id());
  }
  for (const int64_t id : batch.remove_events) events_.erase(id);
  if (batch.put_request.has_value()) {
    const RequestKey& key = batch.put_request->key;
    requests_[{key.caller, key.name_space, key.request_id}] = *batch.put_request;
  }
  for (const FileDeletion& deletion : batch.add_deletions) deletions_.push_back(deletion);
  for (const std::string& uid : batch.delete_jobs) {
    jobs_.erase(uid);
    for (auto it = replicas_.begin(); it != replicas_.end();) {
      it = it->second.job_uid == uid ? replicas_.erase(it) : std::next(it);
    }
    for (auto it = events_.begin(); it != events_.end();) {
      it = it->second.job_uid() == uid ? events_.erase(it) : std::next(it);
    }
  }
  for (const std::string& id : batch.delete_nodes) nodes_.erase(id);
  for (const std::string& id : batch.finish_deletions) {
    deletions_.erase(std::remove_if(deletions_.begin(), deletions_.end(),
                                    [&](const FileDeletion& deletion) { return deletion.node_id == id; }),
                     deletions_.end());
  }
  for (const auto& [node, uid] : batch.remove_deletions) {
    std::erase_if(deletions_, [&](const FileDeletion& deletion) {
      return deletion.node_id == node && deletion.job_uid == uid;
    });
  }
  for (const v1::NamespaceQuota& quota : batch.put_quotas) quotas_[quota.namespace_()] = quota;
  for (const std::string& name : batch.delete_quotas) quotas_.erase(name);
  CommitCosts(batch.costs);
  for (const std::string& id : batch.delete_joins) joins_.erase(id);
  for (const JoinRecord& join : batch.put_joins) joins_[join.id] = join;
  return absl::OkStatus();
}

void MemoryJobStore::CommitCosts(const CostChanges& changes) {
  std::erase_if(costs_, [&](const auto& entry) {
    const CostRow& row = entry.second;
    return absl::c_linear_search(changes.delete_hours, row.hour) ||
           (row.hour == 0 && absl::c_linear_search(changes.delete_totals, row.job_uid));
  });
  for (const CostRow& row : changes.put_rows) costs_[{row.hour, row.job_uid, row.pool}] = row;
  if (changes.nodes.has_value()) billed_ = *changes.nodes;
  if (!changes.currency.empty()) currency_ = changes.currency;
}

absl::StatusOr<std::vector<v1::Event>> MemoryJobStore::ListEvents(const EventQuery& query) {
  MutexLock lock(&mutex_);
  std::vector<v1::Event> events;
  size_t bytes = 0;
  for (auto it = events_.upper_bound(query.after_id); it != events_.end(); ++it) {
    const v1::Event& event = it->second;
    if (event.namespace_() != query.name_space || (!query.job.empty() && event.job() != query.job)) continue;
    if (static_cast<int>(events.size()) == query.limit || bytes > query.max_bytes) break;
    bytes += event.ByteSizeLong();
    events.push_back(event);
  }
  return events;
}

absl::StatusOr<std::vector<ReplicaRecord>> MemoryJobStore::ListReplicas(const std::string& job_uid) {
  MutexLock lock(&mutex_);
  std::vector<ReplicaRecord> replicas;
  for (const auto& [key, replica] : replicas_) {
    if (replica.job_uid == job_uid) replicas.push_back(replica);
  }
  return replicas;
}

absl::StatusOr<std::optional<RequestRecord>> MemoryJobStore::FindRequest(const std::string& caller,
                                                                         const std::string& name_space,
                                                                         const std::string& request_id) {
  MutexLock lock(&mutex_);
  const auto it = requests_.find({caller, name_space, request_id});
  if (it == requests_.end()) return std::optional<RequestRecord>();
  return std::optional<RequestRecord>(it->second);
}

absl::Status MemoryJobStore::PruneRequests(absl::Time time) {
  MutexLock lock(&mutex_);
  for (auto it = requests_.begin(); it != requests_.end();) {
    it = it->second.time < time ? requests_.erase(it) : std::next(it);
  }
  return absl::OkStatus();
}

absl::Status MemoryJobStore::PruneEvents(absl::Time time) {
  MutexLock lock(&mutex_);
  std::erase_if(events_, [&](const auto& entry) { return TimeOf(entry.second) < time; });
  return absl::OkStatus();
}

absl::Status MemoryJobStore::PruneReplicas(const std::string& job_uid, int keep) {
  MutexLock lock(&mutex_);
  const auto job = jobs_.find(job_uid);
  std::vector<int64_t> groups;
  for (const auto& [key, replica] : replicas_) {
    if (replica.job_uid == job_uid) groups.push_back(replica.launch_group);
  }
  if (job == jobs_.end() || groups.size() <= static_cast<size_t>(keep)) return absl::OkStatus();
  const int64_t oldest = groups[groups.size() - 1 - keep];
  std::erase_if(replicas_, [&](const auto& entry) {
    const v1::Replica& replica = entry.second.replica;
    const bool live =
        replica.state() == v1::REPLICA_STATE_LAUNCHING || replica.state() == v1::REPLICA_STATE_RUNNING;
    return entry.second.job_uid == job_uid && !live && entry.second.launch_group < oldest &&
           replica.group() < job->second.state.group;
  });
  return absl::OkStatus();
}

absl::StatusOr<std::string> MemoryJobStore::Backup() {
  return absl::FailedPreconditionError("the supervisor keeps its state in memory only");
}

void MemoryJobStore::FailCommits(absl::Status status) {
  MutexLock lock(&mutex_);
  failure_ = std::move(status);
}

int MemoryJobStore::commits() const {
  MutexLock lock(&mutex_);
  return commits_;
}

}  // namespace adaptdl::supervisor
