// QuotaService at the gRPC edge: administrators. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_QUOTAS_QUOTA_SERVICE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_QUOTAS_QUOTA_SERVICE_H_

#include "adaptdl/v1/quota_service.grpc.pb.h"
#include "libs/service/security/guard.h"
#include "services/supervisor/calls/admission.h"
#include "services/supervisor/calls/lanes.h"
#include "services/supervisor/quotas/quota_manager.h"

namespace adaptdl::supervisor {

class QuotaServiceImpl final : public v1::QuotaService::CallbackService {
 public:
  // None is owned; all outlive the service.
  QuotaServiceImpl(QuotaManager* quotas, const Lanes* lanes, const security::Guard* guard,
                   Admission* admission)
      : quotas_(quotas), lanes_(lanes), guard_(guard), admission_(admission) {}

  grpc::ServerUnaryReactor* SetQuota(grpc::CallbackServerContext* context, const v1::SetQuotaRequest* request,
                                     v1::SetQuotaResponse* response) override;
  grpc::ServerUnaryReactor* ListQuotas(grpc::CallbackServerContext* context,
                                       const v1::ListQuotasRequest* request,
                                       v1::ListQuotasResponse* response) override;
  grpc::ServerUnaryReactor* RemoveQuota(grpc::CallbackServerContext* context,
                                        const v1::RemoveQuotaRequest* request,
                                        v1::RemoveQuotaResponse* response) override;

 private:
  absl::Status AdmitChange(const grpc::CallbackServerContext& context) const;

  QuotaManager* const quotas_;
  const Lanes* const lanes_;
  const security::Guard* const guard_;
  Admission* const admission_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_QUOTAS_QUOTA_SERVICE_H_
