#include "services/supervisor/quota_service.h"

#include "absl/status/statusor.h"
#include "services/supervisor/unary.h"

namespace adaptdl::supervisor {

grpc::ServerUnaryReactor* QuotaServiceImpl::SetQuota(grpc::CallbackServerContext* context,
                                                     const v1::SetQuotaRequest* request,
                                                     v1::SetQuotaResponse* response) {
  return Answer(
      state_, context, [this, request] { return state_->SetQuota(*request); }, response);
}

grpc::ServerUnaryReactor* QuotaServiceImpl::ListQuotas(grpc::CallbackServerContext* context,
                                                       const v1::ListQuotasRequest* /*request*/,
                                                       v1::ListQuotasResponse* response) {
  return Answer(
      state_, context, [this] { return absl::StatusOr<v1::ListQuotasResponse>(state_->ListQuotas()); },
      response);
}

grpc::ServerUnaryReactor* QuotaServiceImpl::RemoveQuota(grpc::CallbackServerContext* context,
                                                        const v1::RemoveQuotaRequest* request,
                                                        v1::RemoveQuotaResponse* response) {
  return Answer(
      state_, context, [this, request] { return state_->RemoveQuota(*request); }, response);
}

}  // namespace adaptdl::supervisor
