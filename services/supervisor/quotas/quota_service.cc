#include "services/supervisor/quotas/quota_service.h"

#include "absl/status/statusor.h"
#include "services/supervisor/calls/unary.h"

namespace adaptdl::supervisor {

absl::Status QuotaServiceImpl::AdmitChange(const grpc::CallbackServerContext& context) const {
  return admission_->Change(Admission::CallerOf(context, *guard_), lanes_->changes->waiting());
}

grpc::ServerUnaryReactor* QuotaServiceImpl::SetQuota(grpc::CallbackServerContext* context,
                                                     const v1::SetQuotaRequest* request,
                                                     v1::SetQuotaResponse* response) {
  if (const absl::Status status = AdmitChange(*context); !status.ok()) return Answer(context, status);
  return AnswerChange(
      lanes_, Admission::CallerOf(*context, *guard_), context,
      [this, request, caller = Admission::IdentityOf(*context, *guard_)] {
        return quotas_->SetQuota(*request, caller);
      },
      response);
}

grpc::ServerUnaryReactor* QuotaServiceImpl::ListQuotas(grpc::CallbackServerContext* context,
                                                       const v1::ListQuotasRequest* request,
                                                       v1::ListQuotasResponse* response) {
  const absl::Status status = admission_->Call(Admission::CallerOf(*context, *guard_));
  if (!status.ok()) return Answer(context, status);
  return AnswerRead(
      lanes_, Admission::CallerOf(*context, *guard_), context,
      [this, request] { return quotas_->ListQuotas(*request); }, response);
}

grpc::ServerUnaryReactor* QuotaServiceImpl::RemoveQuota(grpc::CallbackServerContext* context,
                                                        const v1::RemoveQuotaRequest* request,
                                                        v1::RemoveQuotaResponse* response) {
  if (const absl::Status status = AdmitChange(*context); !status.ok()) return Answer(context, status);
  return AnswerChange(
      lanes_, Admission::CallerOf(*context, *guard_), context,
      [this, request, caller = Admission::IdentityOf(*context, *guard_)] {
        return quotas_->RemoveQuota(*request, caller);
      },
      response);
}

}  // namespace adaptdl::supervisor
