// NodeService at the gRPC edge: workers and admins. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_NODE_SERVICE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_NODE_SERVICE_H_

#include "adaptdl/v1/node_service.grpc.pb.h"
#include "libs/service/security/guard.h"
#include "services/supervisor/admission.h"
#include "services/supervisor/cluster_state.h"
#include "services/supervisor/strangers.h"
#include "services/supervisor/streams.h"
#include "services/supervisor/worker_launcher.h"

namespace adaptdl::supervisor {

class NodeServiceImpl final : public v1::NodeService::CallbackService {
 public:
  // All outlive the service.
  NodeServiceImpl(ClusterState* state, WorkerLauncher* launcher, Streams* streams, Strangers* strangers,
                  const security::Guard* guard, Admission* admission)
      : state_(state),
        launcher_(launcher),
        streams_(streams),
        strangers_(strangers),
        guard_(guard),
        admission_(admission) {}

  grpc::ServerUnaryReactor* RegisterNode(grpc::CallbackServerContext* context,
                                         const v1::RegisterNodeRequest* request,
                                         v1::RegisterNodeResponse* response) override;
  grpc::ServerBidiReactor<v1::ConnectRequest, v1::ConnectResponse>* Connect(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* ListNodes(grpc::CallbackServerContext* context,
                                      const v1::ListNodesRequest* request,
                                      v1::ListNodesResponse* response) override;
  grpc::ServerUnaryReactor* DrainNode(grpc::CallbackServerContext* context,
                                      const v1::DrainNodeRequest* request,
                                      v1::DrainNodeResponse* response) override;
  grpc::ServerUnaryReactor* RemoveNode(grpc::CallbackServerContext* context,
                                       const v1::RemoveNodeRequest* request,
                                       v1::RemoveNodeResponse* response) override;

 private:
  ClusterState* const state_;
  WorkerLauncher* const launcher_;
  Streams* const streams_;
  Strangers* const strangers_;
  const security::Guard* const guard_;
  Admission* const admission_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_NODE_SERVICE_H_
