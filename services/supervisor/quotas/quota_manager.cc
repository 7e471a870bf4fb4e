#include "services/supervisor/quotas/quota_manager.h"

#include <cstddef>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/jobspec/checks.h"
#include "libs/rpc/retry_info.h"
#include "services/supervisor/calls/pages.h"
#include "services/supervisor/calls/validation.h"

namespace adaptdl::supervisor {

absl::StatusOr<v1::SetQuotaResponse> QuotaManager::SetQuota(const v1::SetQuotaRequest& request,
                                                            const std::string& caller) {
  absl::Status status = ValidateRequestId(request.request_id());
  status.Update(ValidateQuota(request));
  if (!status.ok()) return status;
  const auto change = [&](Transaction* transaction) -> absl::StatusOr<v1::SetQuotaResponse> {
    v1::SetQuotaResponse response;
    v1::NamespaceQuota* quota = response.mutable_quota();
    quota->set_namespace_(request.namespace_());
    quota->set_weight(1);
    const auto known = transaction->base().quotas.find(request.namespace_());
    if (known != transaction->base().quotas.end()) *quota = known->second;
    if (request.has_gpus()) quota->set_gpus(request.gpus());
    if (request.has_weight()) quota->set_weight(request.weight());
    if (request.has_jobs()) quota->set_jobs(request.jobs());
    if (request.has_submissions_per_minute()) {
      quota->set_submissions_per_minute(request.submissions_per_minute());
    }
    transaction->PutQuota(*quota);
    return response;
  };
  return core_->UpdateOnce<v1::SetQuotaResponse>(KeyOf(caller, "", request), change);
}

absl::StatusOr<v1::ListQuotasResponse> QuotaManager::ListQuotas(const v1::ListQuotasRequest& request) const {
  const absl::StatusOr<int> page_size = ParsePageSize(request.page_size());
  if (!page_size.ok()) return page_size.status();
  // Older clients know no pages.
  const bool all = request.page_size() == 0;
  const size_t most = all ? std::numeric_limits<size_t>::max() : static_cast<size_t>(*page_size);
  v1::ListQuotasResponse response;
  // The token is the last namespace of the page before. One more than the page holds tells whether there is
  // another.
  for (v1::NamespaceQuota& quota : core_->index().QuotasAfter(request.page_token(), all ? most : most + 1)) {
    const int size = response.quotas_size();
    if (static_cast<size_t>(size) == most) {
      response.set_next_page_token(response.quotas(size - 1).namespace_());
      break;
    }
    *response.add_quotas() = std::move(quota);
  }
  return response;
}

absl::StatusOr<v1::RemoveQuotaResponse> QuotaManager::RemoveQuota(const v1::RemoveQuotaRequest& request,
                                                                  const std::string& caller) {
  absl::Status status = ValidateRequestId(request.request_id());
  status.Update(jobspec::CheckDnsLabel("namespace", request.namespace_()));
  if (!status.ok()) return status;
  const auto change = [&](Transaction* transaction) -> absl::StatusOr<v1::RemoveQuotaResponse> {
    if (transaction->base().quotas.count(request.namespace_()) == 0) {
      return absl::NotFoundError(
          absl::StrCat("namespace \"", request.namespace_(), "\" has no quota; list the quotas there are"));
    }
    transaction->DeleteQuota(request.namespace_());
    return v1::RemoveQuotaResponse();
  };
  return core_->UpdateOnce<v1::RemoveQuotaResponse>(KeyOf(caller, "", request), change);
}

absl::Status QuotaManager::CheckSubmission(const Transaction& transaction,
                                           const std::string& name_space) const {
  const absl::Status jobs = CheckJobs(transaction, name_space);
  return jobs.ok() ? CheckRate(transaction, name_space) : jobs;
}

absl::Status QuotaManager::CheckJobs(const Transaction& transaction, const std::string& name_space) const {
  const auto quota = transaction.base().quotas.find(name_space);
  const int own = quota == transaction.base().quotas.end() ? 0 : quota->second.jobs();
  const int most = own > 0 ? own : options_.max_jobs;
  const auto count = transaction.base().unfinished.find(name_space);
  if (most <= 0 || count == transaction.base().unfinished.end() || count->second < most)
    return absl::OkStatus();
  if (Metrics* metrics = core_->metrics()) metrics->CountRefused("jobs_quota");
  return absl::ResourceExhaustedError(absl::StrCat(
      "namespace \"", name_space, "\" has ", count->second, " unfinished jobs, and may have ", most,
      own > 0 ? " (its quota \"jobs\")" : " (--max-jobs-per-namespace of the supervisor)",
      "; wait until some have finished, cancel some, or ask an administrator for more (adaptdl quota set ",
      name_space, " --jobs N)"));
}

absl::Status QuotaManager::CheckRate(const Transaction& transaction, const std::string& name_space) const {
  const auto quota = transaction.base().quotas.find(name_space);
  const int own = quota == transaction.base().quotas.end() ? 0 : quota->second.submissions_per_minute();
  const int most = own > 0 ? own : options_.max_submissions_per_minute;
  const absl::Duration wait = transaction.base().submissions.Wait(name_space, most, transaction.now());
  if (wait == absl::ZeroDuration()) return absl::OkStatus();
  if (Metrics* metrics = core_->metrics()) metrics->CountRefused("submissions_quota");
  return rpc::WithRetryDelay(
      absl::ResourceExhaustedError(absl::StrCat(
          "namespace \"", name_space, "\" has submitted ", most,
          " jobs within a minute, and may not submit more (",
          own > 0 ? "its quota \"submissions per minute\"" : "--max-submissions-per-minute of the supervisor",
          "); try again in ", absl::FormatDuration(absl::Ceil(wait, absl::Seconds(1))),
          ", or ask an administrator for more (adaptdl quota set ", name_space,
          " --submissions-per-minute N)")),
      wait);
}

}  // namespace adaptdl::supervisor
