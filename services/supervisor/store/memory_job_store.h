// A store in memory, for tests of what stands above it. Forgets everything when it is destroyed, and fails on
// demand. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_MEMORY_JOB_STORE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_MEMORY_JOB_STORE_H_

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "libs/base/mutex.h"
#include "services/supervisor/store/job_store.h"

namespace adaptdl::supervisor {

class MemoryJobStore : public JobStore {
 public:
  absl::StatusOr<StoreContents> Load(absl::Time now) override;
  absl::Status Commit(const WriteBatch& batch) override;
  bool needs_sync() const override { return false; }
  absl::Status Sync() override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<v1::Event>> ListEvents(const EventQuery& query) override;
  absl::StatusOr<std::vector<ReplicaRecord>> ListReplicas(const std::string& job_uid) override;
  absl::StatusOr<std::optional<RequestRecord>> FindRequest(const std::string& caller,
                                                           const std::string& name_space,
                                                           const std::string& request_id) override;
  absl::Status PruneRequests(absl::Time time) override;
  absl::Status PruneEvents(absl::Time time) override;
  absl::Status PruneReplicas(const std::string& job_uid, int keep) override;
  absl::StatusOr<std::string> Backup() override;

  // What Commit() returns from now on; OK: it works again.
  void FailCommits(absl::Status status);
  // Commits that changed something.
  int commits() const;

 private:
  void CommitCosts(const CostChanges& changes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  int commits_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, JobRecord> jobs_ ABSL_GUARDED_BY(mutex_);
  // By job uid, and the group and rank that they were launched for.
  std::map<std::tuple<std::string, int64_t, int>, ReplicaRecord> replicas_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, NodeRecord> nodes_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, v1::Event> events_ ABSL_GUARDED_BY(mutex_);
  std::map<std::tuple<std::string, std::string, std::string>, RequestRecord> requests_
      ABSL_GUARDED_BY(mutex_);
  std::vector<FileDeletion> deletions_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, v1::NamespaceQuota> quotas_ ABSL_GUARDED_BY(mutex_);
  // By hour, job (uid) and pool.
  std::map<std::tuple<int64_t, std::string, std::string>, CostRow> costs_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, JoinRecord> joins_ ABSL_GUARDED_BY(mutex_);
  std::vector<BilledNode> billed_ ABSL_GUARDED_BY(mutex_);
  std::string currency_ ABSL_GUARDED_BY(mutex_);
  int64_t last_sequence_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t last_event_id_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_MEMORY_JOB_STORE_H_
