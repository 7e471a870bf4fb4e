// What namespaces may have: their quotas, and whether one may have another job. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_QUOTAS_QUOTA_MANAGER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_QUOTAS_QUOTA_MANAGER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adaptdl/v1/quota_service.pb.h"
#include "services/supervisor/state/core.h"
#include "services/supervisor/state/transaction.h"

namespace adaptdl::supervisor {

// Bounds of namespaces without quotas of their own. 0: none.
struct QuotaDefaults {
  // Jobs that have not finished.
  int max_jobs = 10'000;
  // Submissions in any minute.
  int max_submissions_per_minute = 0;
};

class QuotaManager {
 public:
  // `core` outlives it.
  QuotaManager(Core* core, const QuotaDefaults& options) : core_(core), options_(options) {}

  // `caller`: who has proved to be it (Admission::IdentityOf); an answer is repeated to none other.
  absl::StatusOr<v1::SetQuotaResponse> SetQuota(const v1::SetQuotaRequest& request,
                                                const std::string& caller);
  absl::StatusOr<v1::ListQuotasResponse> ListQuotas(const v1::ListQuotasRequest& request) const;
  absl::StatusOr<v1::RemoveQuotaResponse> RemoveQuota(const v1::RemoveQuotaRequest& request,
                                                      const std::string& caller);

  // RESOURCE_EXHAUSTED: the namespace may not have another job, or not yet.
  absl::Status CheckSubmission(const Transaction& transaction, const std::string& name_space) const;

 private:
  absl::Status CheckJobs(const Transaction& transaction, const std::string& name_space) const;
  absl::Status CheckRate(const Transaction& transaction, const std::string& name_space) const;

  Core* const core_;
  const QuotaDefaults options_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_QUOTAS_QUOTA_MANAGER_H_
