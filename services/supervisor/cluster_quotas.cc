// What namespaces may have.

#include <string>

#include "absl/strings/str_cat.h"
#include "services/supervisor/cluster_state.h"
#include "services/supervisor/validation.h"

namespace adaptdl::supervisor {

absl::StatusOr<v1::SetQuotaResponse> ClusterState::SetQuota(const v1::SetQuotaRequest& request) {
  absl::Status status = ValidateRequestId(request.request_id());
  status.Update(ValidateQuota(request));
  if (!status.ok()) return status;
  const auto change = [&](Transaction* transaction)
                          ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::StatusOr<v1::SetQuotaResponse> {
    v1::SetQuotaResponse response;
    v1::NamespaceQuota* quota = response.mutable_quota();
    quota->set_namespace_(request.namespace_());
    quota->set_weight(1);
    const auto known = tables_.quotas.find(request.namespace_());
    if (known != tables_.quotas.end()) *quota = known->second;
    if (request.has_gpus()) quota->set_gpus(request.gpus());
    if (request.has_weight()) quota->set_weight(request.weight());
    transaction->PutQuota(*quota);
    return response;
  };
  return Once<v1::SetQuotaResponse>(request.request_id(), "SetQuota", change);
}

v1::ListQuotasResponse ClusterState::ListQuotas() const {
  v1::ListQuotasResponse response;
  MutexLock lock(&mutex_);
  for (const auto& [name, quota] : tables_.quotas) *response.add_quotas() = quota;
  return response;
}

absl::StatusOr<v1::RemoveQuotaResponse> ClusterState::RemoveQuota(const v1::RemoveQuotaRequest& request) {
  absl::Status status = ValidateRequestId(request.request_id());
  status.Update(ValidateDnsLabel("namespace", request.namespace_()));
  if (!status.ok()) return status;
  const auto change = [&](Transaction* transaction)
                          ABSL_NO_THREAD_SAFETY_ANALYSIS -> absl::StatusOr<v1::RemoveQuotaResponse> {
    if (tables_.quotas.count(request.namespace_()) == 0) {
      return absl::NotFoundError(
          absl::StrCat("namespace \"", request.namespace_(), "\" has no quota; list the quotas there are"));
    }
    transaction->DeleteQuota(request.namespace_());
    return v1::RemoveQuotaResponse();
  };
  return Once<v1::RemoveQuotaResponse>(request.request_id(), "RemoveQuota", change);
}

}  // namespace adaptdl::supervisor
