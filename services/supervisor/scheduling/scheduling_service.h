// SchedulingService at the gRPC edge: the allocator. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_SCHEDULING_SCHEDULING_SERVICE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_SCHEDULING_SCHEDULING_SERVICE_H_

#include "adaptdl/v1/scheduling_service.grpc.pb.h"
#include "libs/service/security/guard.h"
#include "services/supervisor/calls/lanes.h"
#include "services/supervisor/calls/streams.h"
#include "services/supervisor/scheduling/scheduling_manager.h"
#include "services/supervisor/state/change_hub.h"

namespace adaptdl::supervisor {

class SchedulingServiceImpl final : public v1::SchedulingService::CallbackService {
 public:
  // All outlive the service.
  SchedulingServiceImpl(SchedulingManager* scheduling, const Lanes* lanes, ChangeHub* hub, Streams* streams,
                        const security::Guard* guard)
      : scheduling_(scheduling), lanes_(lanes), hub_(hub), streams_(streams), guard_(guard) {}

  grpc::ServerUnaryReactor* AcquireLease(grpc::CallbackServerContext* context,
                                         const v1::AcquireLeaseRequest* request,
                                         v1::AcquireLeaseResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchClusterResponse>* WatchCluster(
      grpc::CallbackServerContext* context, const v1::WatchClusterRequest* request) override;
  grpc::ServerUnaryReactor* ApplyAllocations(grpc::CallbackServerContext* context,
                                             const v1::ApplyAllocationsRequest* request,
                                             v1::ApplyAllocationsResponse* response) override;

 private:
  SchedulingManager* const scheduling_;
  const Lanes* const lanes_;
  ChangeHub* const hub_;
  Streams* const streams_;
  const security::Guard* const guard_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_SCHEDULING_SCHEDULING_SERVICE_H_
