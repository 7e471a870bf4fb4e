// What users do with jobs. Thread-safe; all errors are those that clients see.
//
// Calls that change something take the `caller` that has proved who it is (Admission::IdentityOf): an answer
// is repeated to none other.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_JOBS_JOB_MANAGER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_JOBS_JOB_MANAGER_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adaptdl/v1/job_service.pb.h"
#include "libs/jobspec/job_spec.h"
#include "services/supervisor/code/code_store.h"
#include "services/supervisor/costs/cost_book.h"
#include "services/supervisor/jobs/file_deletions.h"
#include "services/supervisor/jobs/job_registrar.h"
#include "services/supervisor/jobs/reconciler.h"
#include "services/supervisor/quotas/quota_manager.h"
#include "services/supervisor/state/core.h"

namespace adaptdl::supervisor {

class JobManager {
 public:
  // All outlive it. `random_hex`: lower-case hexadecimal digits of so many random bytes.
  JobManager(Core* core, const QuotaManager* quotas, const CostBook* costs, Reconciler* reconciler,
             const FileDeletions* deletions, std::function<std::string(int)> random_hex)
      : core_(core),
        quotas_(quotas),
        costs_(costs),
        reconciler_(reconciler),
        deletions_(deletions),
        random_hex_(std::move(random_hex)) {}

  // From now on jobs may bring folders, whose archives are there. Outlives it. Before anything else.
  void SetCode(CodeStore* code) { code_ = code; }

  // From now on jobs are made there, and are of this kind. `registrar` outlives it. Before anything else.
  void SetRegistrar(JobRegistrar* registrar, jobspec::ReplicaKind kind);

  absl::StatusOr<v1::SubmitJobResponse> SubmitJob(v1::SubmitJobRequest request, const std::string& caller);
  absl::StatusOr<v1::Job> GetJob(const std::string& name_space, const std::string& name) const;
  // NOT_FOUND if there is none any more.
  absl::StatusOr<v1::Job> GetJobByUid(const std::string& uid) const;
  absl::StatusOr<v1::ListJobsResponse> ListJobs(const v1::ListJobsRequest& request) const;
  // uids in order of submission; namespace "*" means all.
  std::vector<std::string> JobUids(const std::string& name_space) const;
  absl::StatusOr<v1::UpdateJobResponse> UpdateJob(const v1::UpdateJobRequest& request,
                                                  const std::string& caller);
  // A job that others have made, with its name and uid: it is known from now on. `valid`: whether it makes sense; one
  // that does not has failed. Nothing happens if it is known. UNAVAILABLE: one before it of the same name still ends;
  // ask again.
  absl::Status AdoptJob(v1::Job job, absl::Time submitted, const absl::Status& valid);
  // A job that others have deleted: its replicas stop, and then it is known no more. False: not yet; ask again.
  absl::StatusOr<bool> AbandonJob(const std::string& uid);
  // Takes over what differs between the job and what is known of it: of its specification, what may change. The
  // job is there, has not finished, and is valid.
  void TakeUpdate(Transaction* transaction, std::shared_ptr<const v1::Job> job);
  absl::StatusOr<v1::CancelJobResponse> CancelJob(const v1::CancelJobRequest& request,
                                                  const std::string& caller);
  absl::StatusOr<v1::DeleteJobResponse> DeleteJob(const v1::DeleteJobRequest& request,
                                                  const std::string& caller);
  absl::StatusOr<v1::ListEventsResponse> ListEvents(const v1::ListEventsRequest& request) const;

 private:
  // Finds the job that this one is to start from.
  static absl::Status ResolveStart(const Transaction& transaction, v1::Job* job);
  absl::StatusOr<std::string> ChooseName(const Transaction& transaction,
                                         const v1::SubmitJobRequest& request) const;
  absl::StatusOr<v1::SubmitJobResponse> AddJob(Transaction* transaction, const v1::SubmitJobRequest& request);
  absl::StatusOr<v1::SubmitJobResponse> SubmitThere(const v1::SubmitJobRequest& request,
                                                    const RequestKey& key);
  // Whether the folder that the job brings is there, if it brings one; it stays from then on.
  absl::Status CheckCode(const v1::Job& job) const;
  // The job as users see it, with what it has cost.
  v1::Job Describe(const JobEntry& entry, absl::Time now) const;
  // The job with a record, as one that waits.
  static const JobEntry* AddRecord(Transaction* transaction, std::shared_ptr<const v1::Job> job,
                                   absl::Time submitted);
  // NOT_FOUND, or DATA_LOSS: the job is there, and can't be read.
  absl::Status WhyNone(const std::string& name_space, const std::string& name) const;

  Core* const core_;
  const QuotaManager* const quotas_;
  const CostBook* const costs_;
  Reconciler* const reconciler_;
  const FileDeletions* const deletions_;
  const std::function<std::string(int)> random_hex_;
  // Null: jobs can't bring any.
  CodeStore* code_ = nullptr;
  // Null: the store's jobs are all there are.
  JobRegistrar* registrar_ = nullptr;
  jobspec::ReplicaKind kind_ = jobspec::ReplicaKind::kProcess;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_JOBS_JOB_MANAGER_H_
