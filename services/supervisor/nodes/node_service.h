// NodeService at the gRPC edge: workers and admins. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_NODES_NODE_SERVICE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_NODES_NODE_SERVICE_H_

#include "adaptdl/v1/node_service.grpc.pb.h"
#include "libs/service/security/guard.h"
#include "libs/service/strangers.h"
#include "services/supervisor/calls/admission.h"
#include "services/supervisor/calls/lanes.h"
#include "services/supervisor/calls/streams.h"
#include "services/supervisor/nodes/node_manager.h"
#include "services/supervisor/nodes/worker_launcher.h"
#include "services/supervisor/state/core.h"

namespace adaptdl::supervisor {

class NodeServiceImpl final : public v1::NodeService::CallbackService {
 public:
  // All outlive the service.
  NodeServiceImpl(NodeManager* nodes, const Core* core, const Lanes* lanes, WorkerLauncher* launcher,
                  Streams* streams, service::Strangers* strangers, const security::Guard* guard,
                  Admission* admission)
      : nodes_(nodes),
        core_(core),
        lanes_(lanes),
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
  NodeManager* const nodes_;
  const Core* const core_;
  const Lanes* const lanes_;
  WorkerLauncher* const launcher_;
  Streams* const streams_;
  service::Strangers* const strangers_;
  const security::Guard* const guard_;
  Admission* const admission_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_NODES_NODE_SERVICE_H_
