// What administrators ask of the supervisor. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_ADMIN_ADMIN_SERVICE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_ADMIN_ADMIN_SERVICE_H_

#include "adaptdl/v1/admin_service.grpc.pb.h"
#include "libs/service/security/guard.h"
#include "services/supervisor/calls/executor.h"
#include "services/supervisor/calls/streams.h"
#include "services/supervisor/state/group_commit.h"
#include "services/supervisor/store/job_store.h"

namespace adaptdl::supervisor {

class AdminServiceImpl final : public v1::AdminService::CallbackService {
 public:
  // All outlive the service.
  AdminServiceImpl(JobStore* store, Streams* streams, const security::Guard* guard, Executor* executor,
                   GroupCommit* durability)
      : store_(store), streams_(streams), guard_(guard), executor_(executor), durability_(durability) {}

  grpc::ServerWriteReactor<v1::BackupResponse>* Backup(grpc::CallbackServerContext* context,
                                                       const v1::BackupRequest* request) override;
  grpc::ServerUnaryReactor* WhoAmI(grpc::CallbackServerContext* context, const v1::WhoAmIRequest* request,
                                   v1::WhoAmIResponse* response) override;

 private:
  JobStore* const store_;
  Streams* const streams_;
  const security::Guard* const guard_;
  Executor* const executor_;
  GroupCommit* const durability_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_ADMIN_ADMIN_SERVICE_H_
