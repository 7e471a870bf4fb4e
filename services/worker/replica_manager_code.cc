// The folders that come with jobs: who waits for one, and who uses one.

#include <set>
#include <string>

#include "services/worker/names.h"
#include "services/worker/replica_end.h"
#include "services/worker/replica_manager.h"

namespace adaptdl::worker {

void ReplicaManager::NoteFetching(const std::string& replica_id, bool fetching) {
  MutexLock lock(&mutex_);
  Entry& entry = replicas_.at(replica_id);
  entry.start = fetching ? Start::kFetching : Start::kPreparing;
  // Each has a patience of its own.
  entry.start_time = clock_->Steady();
}

bool ReplicaManager::IsWanted(const std::string& replica_id) const {
  MutexLock lock(&mutex_);
  return !HasEnded(replicas_.at(replica_id).report.replica());
}

absl::Status ReplicaManager::RemoveFilesOf(const v1::DeleteJobFiles& job) {
  const std::string folder = JobFolderName(job.namespace_(), job.job(), job.job_uid());
  absl::Status status = storage_.Remove(job);
  status.Update(jobs_->Remove(folder));
  status.Update(code_.Remove(folder));
  return status;
}

void ReplicaManager::TrimCode() {
  code_.Trim([this] {
    std::set<std::string> used;
    MutexLock lock(&mutex_);
    for (const auto& [replica_id, entry] : replicas_) {
      // One that was called off may still be on its way to its folder.
      const bool ended = HasEnded(entry.report.replica()) && entry.start == Start::kDone;
      const v1::ReplicaReport& report = entry.report;
      if (ended || !entry.replica_template.has_code()) continue;
      used.insert(JobFolderName(report.namespace_(), report.job(), report.job_uid()));
    }
    return used;
  });
}

}  // namespace adaptdl::worker
