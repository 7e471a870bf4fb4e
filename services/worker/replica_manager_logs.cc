// Where logs are, what those of ended replicas may take, and which go first.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "services/worker/replica_manager.h"

namespace adaptdl::worker {

absl::StatusOr<ReplicaManager::LogPlace> ReplicaManager::FindLog(const std::string& replica_id) const {
  MutexLock lock(&mutex_);
  const auto it = replicas_.find(replica_id);
  if (it == replicas_.end()) {
    return absl::NotFoundError(absl::StrCat("node \"", preparer_.node().node_id,
                                            "\" has no log of replica \"", replica_id,
                                            "\": it never ran here, or its log was removed"));
  }
  const v1::Replica& replica = it->second.report.replica();
  return LogPlace{.folder = store_.FolderOf(replica_id), .group = replica.group(), .rank = replica.rank()};
}

namespace {

// What a replica has left, or still writes.
struct KeptLog {
  std::string replica_id;
  std::string job_uid;
  int64_t end_seconds = 0;
  bool may_go = false;
};

// Logs of one job on this node.
struct JobLogs {
  int64_t bytes = 0;
  // Acknowledged replicas by the time of their end, and the bytes of each.
  std::set<std::pair<int64_t, std::string>> ended;
};

// The job whose oldest log is to go: it has something to give, and the most of what is too much. Null: none.
JobLogs* MostOf(std::map<std::string, JobLogs>* jobs, bool count_bytes) {
  JobLogs* most = nullptr;
  for (auto& [uid, logs] : *jobs) {
    if (logs.ended.empty()) continue;
    const bool more =
        most == nullptr || (count_bytes ? logs.bytes > most->bytes : logs.ended.size() > most->ended.size());
    if (more) most = &logs;
  }
  return most;
}

}  // namespace

int64_t ReplicaManager::PruneLogs(int max_replicas, int64_t max_bytes, int64_t max_job_bytes) {
  std::vector<KeptLog> logs_kept;
  {
    MutexLock lock(&mutex_);
    for (const auto& [replica_id, entry] : replicas_) {
      logs_kept.push_back({.replica_id = replica_id,
                           .job_uid = entry.report.job_uid(),
                           .end_seconds = entry.report.replica().end_time().seconds(),
                           .may_go = entry.acknowledged && entry.start == Start::kDone});
    }
  }
  std::map<std::string, int64_t> sizes;
  std::map<std::string, JobLogs> jobs;
  int64_t total = 0;
  int ended = 0;
  for (const KeptLog& log : logs_kept) {
    const int64_t bytes = sizes[log.replica_id] = store_.LogBytes(log.replica_id);
    JobLogs& logs = jobs[log.job_uid];
    logs.bytes += bytes;
    total += bytes;
    if (!log.may_go) continue;
    logs.ended.emplace(log.end_seconds, log.replica_id);
    ++ended;
  }
  const auto remove_oldest = [&](JobLogs* logs) {
    const std::string replica_id = logs->ended.begin()->second;
    {
      MutexLock lock(&mutex_);
      replicas_.erase(replica_id);
    }
    store_.Remove(replica_id).IgnoreError();
    logs->ended.erase(logs->ended.begin());
    logs->bytes -= sizes[replica_id];
    total -= sizes[replica_id];
    --ended;
  };
  for (auto& [uid, logs] : jobs) {
    while (logs.bytes > max_job_bytes && !logs.ended.empty()) remove_oldest(&logs);
  }
  while (ended > max_replicas) remove_oldest(MostOf(&jobs, /*count_bytes=*/false));
  while (total > max_bytes && ended > 0) remove_oldest(MostOf(&jobs, /*count_bytes=*/true));
  return total;
}

}  // namespace adaptdl::worker
