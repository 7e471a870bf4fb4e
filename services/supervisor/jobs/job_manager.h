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
#include "services/supervisor/jobs/file_deletions.h"
#include "services/supervisor/jobs/reconciler.h"
#include "services/supervisor/quotas/quota_manager.h"
#include "services/supervisor/state/core.h"

namespace adaptdl::supervisor {

class JobManager {
 public:
  // All outlive it. `random_hex`: lower-case hexadecimal digits of so many random bytes.
  JobManager(Core* core, const QuotaManager* quotas, Reconciler* reconciler, const FileDeletions* deletions,
             std::function<std::string(int)> random_hex)
      : core_(core),
        quotas_(quotas),
        reconciler_(reconciler),
        deletions_(deletions),
        random_hex_(std::move(random_hex)) {}

  absl::StatusOr<v1::SubmitJobResponse> SubmitJob(v1::SubmitJobRequest request, const std::string& caller);
  absl::StatusOr<v1::Job> GetJob(const std::string& name_space, const std::string& name) const;
  // NOT_FOUND if there is none any more.
  absl::StatusOr<v1::Job> GetJobByUid(const std::string& uid) const;
  absl::StatusOr<v1::ListJobsResponse> ListJobs(const v1::ListJobsRequest& request) const;
  // uids in order of submission; namespace "*" means all.
  std::vector<std::string> JobUids(const std::string& name_space) const;
  absl::StatusOr<v1::UpdateJobResponse> UpdateJob(const v1::UpdateJobRequest& request,
                                                  const std::string& caller);
  // Takes over what differs between the job and what is known of it: of its specification, what may change. The
  // job is there, has not finished, and is valid.
  void TakeUpdate(Transaction* transaction, std::shared_ptr<const v1::Job> job);
  absl::StatusOr<v1::CancelJobResponse> CancelJob(const v1::CancelJobRequest& request,
                                                  const std::string& caller);
  absl::StatusOr<v1::DeleteJobResponse> DeleteJob(const v1::DeleteJobRequest& request,
                                                  const std::string& caller);
  absl::StatusOr<v1::ListEventsResponse> ListEvents(const v1::ListEventsRequest& request) const;

 private:
  absl::StatusOr<std::string> ChooseName(const Transaction& transaction,
                                         const v1::SubmitJobRequest& request) const;
  absl::StatusOr<v1::SubmitJobResponse> AddJob(Transaction* transaction, const v1::SubmitJobRequest& request);
  // NOT_FOUND, or DATA_LOSS: the job is there, and can't be read.
  absl::Status WhyNone(const std::string& name_space, const std::string& name) const;

  Core* const core_;
  const QuotaManager* const quotas_;
  Reconciler* const reconciler_;
  const FileDeletions* const deletions_;
  const std::function<std::string(int)> random_hex_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_JOBS_JOB_MANAGER_H_
