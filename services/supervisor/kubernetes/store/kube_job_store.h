// The store whose truth are objects of Kubernetes: what users ask for is the spec of an AdaptDLJob, what was decided its
// status (job_status_object.h). One job is one write: PATCH of its status in the version that was seen last.
//
// Batches are not atomic: each is about one job at most (Core splits transactions). Nothing is written of what is soft, nor
// of nodes and deletions, which are found out anew; quotas are AdaptDLQuota objects. Events, replicas that have ended and
// answers of requests go to `history`, whose loss costs history only, and events to the cluster as well.
//
// What becomes of a write:
//   taken                       it is the truth
//   conflict                    if the status is what was written last and the spec is the same (others have changed
//                               metadata), it is written on the new version. Another spec: ABORTED, until kubernetes/jobs has
//                               brought it. A status by somebody else: another supervisor leads; LeaderLease::GiveUp()
//   the job is gone             OK: kubernetes/jobs deletes the record
//   no answer                   it reads what stands there, and knows; a server that can't be read: UNAVAILABLE, and the next
//                               commit of the job writes whatever there is to write
//   refused otherwise           UNAVAILABLE; INTERNAL: the server finds the status wrong. Nothing has changed
//
// The session of its client is to give up early (kStorePatience): commits hold up all other changes.
//
// Thread-safe; Load() comes first. Objects are handed out immutable and shared. Parts outlive it.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_KUBE_JOB_STORE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_KUBE_JOB_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/kube/client/client.h"
#include "services/supervisor/kubernetes/store/group_tokens.h"
#include "services/supervisor/kubernetes/store/job_object_writer.h"
#include "services/supervisor/kubernetes/store/kube_events.h"
#include "services/supervisor/lease/leader_lease.h"
#include "services/supervisor/store/job_store.h"

namespace adaptdl::supervisor {

// Of the session: SessionOptions::patience and ::timeout.
inline constexpr absl::Duration kStorePatience = absl::Seconds(2);

struct KubeJobStoreParts {
  const kube::Client* client = nullptr;
  LeaderLease* lease = nullptr;
  const GroupTokens* tokens = nullptr;
  const Clock* clock = nullptr;
  // Keeps history.
  JobStore* history = nullptr;
  // Null: nobody is told.
  KubeEvents* events = nullptr;
  // What an object's metadata and spec ask for (libs/kubejobs).
  std::function<absl::StatusOr<v1::Job>(const kube::Json& object)> job_from_object;
  // Of the jobs. Empty: all.
  std::string name_space = {};
};

class KubeJobStore final : public JobStore {
 public:
  explicit KubeJobStore(KubeJobStoreParts parts);

  // Jobs that have a status of ours; the others are for kubernetes/jobs to add.
  absl::StatusOr<StoreContents> Load(absl::Time now) override;
  absl::Status Commit(const WriteBatch& batch) override;
  bool atomic_batches() const override { return false; }

  // What kubernetes/jobs has seen of a job, so that versions stay fresh; and that its object is gone.
  void Seen(const kube::Json& object);
  void Gone(const std::string& job_uid);
  // The job's object as it was seen or written last; null: there is none.
  std::shared_ptr<const kube::Json> RawObject(const std::string& job_uid) const;
  // Why the job's checkpoints have no place; empty: they have one. It stands in the status from the job's next commit on.
  void SeenStorage(const std::string& job_uid, const std::string& problem);
  // What the namespace's AdaptDLQuota says now; nothing: there is none. Said within the change that takes it over
  // (Core::Update), which is not written then: it is there.
  void SeenQuota(const std::string& name_space, const std::optional<v1::NamespaceQuota>& quota);
  // The largest term in any status that Load() has read.
  int64_t LargestTerm() const { return largest_term_; }

  // History.
  bool needs_sync() const override { return parts_.history->needs_sync(); }
  // Never fails: what is lost of history is logged.
  absl::Status Sync() override;
  absl::StatusOr<std::vector<v1::Event>> ListEvents(const EventQuery& query) override;
  absl::StatusOr<std::vector<ReplicaRecord>> ListReplicas(const std::string& job_uid) override;
  absl::StatusOr<std::optional<RequestRecord>> FindRequest(const std::string& caller,
                                                           const std::string& name_space,
                                                           const std::string& request_id) override;
  absl::Status PruneRequests(absl::Time time) override;
  absl::Status PruneEvents(absl::Time time) override;
  absl::Status PruneReplicas(const std::string& job_uid, int keep) override;
  // FAILED_PRECONDITION: the cluster keeps the state.
  absl::StatusOr<std::string> Backup() override;

 private:
  // What it knows of a job.
  struct Job {
    KnownObject known;
    // As the status has them, and what is soft of them.
    std::vector<ReplicaRecord> replicas;
    // Those that are written, and when they were (steady).
    std::optional<v1::Hints> hints;
    absl::Time hints_time = absl::InfinitePast();
  };

  absl::Status LoadJobs(StoreContents* contents);
  // Adds the job to the contents, or to what is set aside of them.
  void LoadJob(const kube::Json& object, Job* job, StoreContents* contents) const;
  absl::Status LoadQuotas(StoreContents* contents);
  void LoadHistory(absl::Time now, StoreContents* contents);

  // The job's status as it is to be; nothing: there is nothing to write.
  std::optional<std::string> StorageProblem(const std::string& job_uid) const;
  std::optional<kube::Json> StatusToWrite(const JobRecord& record, const Job& job, const Moment& now) const;
  // NOT_FOUND: there is no object.
  absl::StatusOr<Job> FindJob(const JobRecord& record) const;
  absl::Status WriteJob(const JobRecord& record, const std::vector<ReplicaRecord>& replicas);
  absl::Status DeleteJob(const std::string& uid);
  absl::Status WriteQuotas(const WriteBatch& batch);
  absl::Status WriteQuota(const v1::NamespaceQuota& quota);
  absl::Status DeleteQuota(const std::string& name_space);
  std::optional<v1::NamespaceQuota> KnownQuota(const std::string& name_space) const;
  // Tells history and the cluster.
  void Tell(const WriteBatch& batch) const;

  const KubeJobStoreParts parts_;
  const JobObjectWriter writer_;
  int64_t largest_term_ = 0;
  // Held while objects are written: one commit after the other.
  Mutex writing_;
  mutable Mutex mutex_;
  std::map<std::string, Job> jobs_ ABSL_GUARDED_BY(mutex_);  // By uid.
  // What SeenStorage() was told, by uid.
  std::map<std::string, std::string> storage_ ABSL_GUARDED_BY(mutex_);
  // By namespace, as their objects have them.
  std::map<std::string, v1::NamespaceQuota> quotas_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_STORE_KUBE_JOB_STORE_H_
