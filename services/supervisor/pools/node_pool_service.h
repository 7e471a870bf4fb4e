// NodePoolService at the gRPC edge: autoscalers, which report, and people. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_POOLS_NODE_POOL_SERVICE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_POOLS_NODE_POOL_SERVICE_H_

#include "adaptdl/v1/node_pool_service.grpc.pb.h"
#include "libs/service/security/guard.h"
#include "services/supervisor/calls/admission.h"
#include "services/supervisor/calls/lanes.h"
#include "services/supervisor/costs/cost_book.h"
#include "services/supervisor/pools/node_pools.h"

namespace adaptdl::supervisor {

class NodePoolServiceImpl final : public v1::NodePoolService::CallbackService {
 public:
  // None is owned; all outlive the service.
  NodePoolServiceImpl(NodePools* pools, const CostBook* costs, const Lanes* lanes,
                      const security::Guard* guard, Admission* admission)
      : pools_(pools), costs_(costs), lanes_(lanes), guard_(guard), admission_(admission) {}

  grpc::ServerUnaryReactor* ReportNodePools(grpc::CallbackServerContext* context,
                                            const v1::ReportNodePoolsRequest* request,
                                            v1::ReportNodePoolsResponse* response) override;
  grpc::ServerUnaryReactor* GetNodePools(grpc::CallbackServerContext* context,
                                         const v1::GetNodePoolsRequest* request,
                                         v1::GetNodePoolsResponse* response) override;
  grpc::ServerUnaryReactor* GetCosts(grpc::CallbackServerContext* context, const v1::GetCostsRequest* request,
                                     v1::GetCostsResponse* response) override;

 private:
  NodePools* const pools_;
  const CostBook* const costs_;
  const Lanes* const lanes_;
  const security::Guard* const guard_;
  Admission* const admission_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_POOLS_NODE_POOL_SERVICE_H_
