// ReplicaService at the gRPC edge: training processes, which prove who they are with the token of their
// group. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_REPLICA_SERVICE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_REPLICA_SERVICE_H_

#include "adaptdl/v1/replica_service.grpc.pb.h"
#include "services/supervisor/change_hub.h"
#include "services/supervisor/cluster_state.h"
#include "services/supervisor/replica_sessions.h"
#include "services/supervisor/strangers.h"
#include "services/supervisor/streams.h"

namespace adaptdl::supervisor {

class ReplicaServiceImpl final : public v1::ReplicaService::CallbackService {
 public:
  // All outlive the service.
  ReplicaServiceImpl(ClusterState* state, ReplicaSessions* sessions, ChangeHub* hub, Streams* streams,
                     Strangers* strangers)
      : state_(state), sessions_(sessions), hub_(hub), streams_(streams), strangers_(strangers) {}

  grpc::ServerWriteReactor<v1::JoinGroupResponse>* JoinGroup(grpc::CallbackServerContext* context,
                                                             const v1::JoinGroupRequest* request) override;
  grpc::ServerBidiReactor<v1::HeartbeatRequest, v1::HeartbeatResponse>* Heartbeat(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* ReportHints(grpc::CallbackServerContext* context,
                                        const v1::ReportHintsRequest* request,
                                        v1::ReportHintsResponse* response) override;

 private:
  ClusterState* const state_;
  ReplicaSessions* const sessions_;
  ChangeHub* const hub_;
  Streams* const streams_;
  Strangers* const strangers_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_REPLICA_SERVICE_H_
