#include "services/supervisor/quota_service.h"

#include "absl/status/statusor.h"
#include "services/supervisor/unary.h"

namespace adaptdl::supervisor {

absl::Status QuotaServiceImpl::AdmitChange(const grpc::CallbackServerContext& context) const {
  return admission_->Change(Admission::CallerOf(context, *guard_), state_->executor()->waiting());
}

grpc::ServerUnaryReactor* QuotaServiceImpl::SetQuota(grpc::CallbackServerContext* context,
                                                     const v1::SetQuotaRequest* request,
                                                     v1::SetQuotaResponse* response) {
  if (const absl::Status status = AdmitChange(*context); !status.ok()) return Answer(context, status);
  return AnswerChange(
      state_, Admission::CallerOf(*context, *guard_), context,
      [this, request, caller = Admission::IdentityOf(*context, *guard_)] {
        return state_->SetQuota(*request, caller);
      },
      response);
}

grpc::ServerUnaryReactor* QuotaServiceImpl::ListQuotas(grpc::CallbackServerContext* context,
                                                       const v1::ListQuotasRequest* request,
                                                       v1::ListQuotasResponse* response) {
  const absl::Status status = admission_->Call(Admission::CallerOf(*context, *guard_));
  if (!status.ok()) return Answer(context, status);
  return AnswerRead(
      state_, Admission::CallerOf(*context, *guard_), context,
      [this, request] { return state_->ListQuotas(*request); }, response);
}

grpc::ServerUnaryReactor* QuotaServiceImpl::RemoveQuota(grpc::CallbackServerContext* context,
                                                        const v1::RemoveQuotaRequest* request,
                                                        v1::RemoveQuotaResponse* response) {
  if (const absl::Status status = AdmitChange(*context); !status.ok()) return Answer(context, status);
  return AnswerChange(
      state_, Admission::CallerOf(*context, *guard_), context,
      [this, request, caller = Admission::IdentityOf(*context, *guard_)] {
        return state_->RemoveQuota(*request, caller);
      },
      response);
}

}  // namespace adaptdl::supervisor
