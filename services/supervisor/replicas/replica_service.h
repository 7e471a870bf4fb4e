// ReplicaService at the gRPC edge: training processes, which prove who they are with the token of their
// group. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_REPLICA_SERVICE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_REPLICA_SERVICE_H_

#include "absl/time/time.h"
#include "adaptdl/v1/replica_service.grpc.pb.h"
#include "libs/service/strangers.h"
#include "services/supervisor/calls/lanes.h"
#include "services/supervisor/calls/streams.h"
#include "services/supervisor/replicas/membership.h"
#include "services/supervisor/replicas/replica_sessions.h"
#include "services/supervisor/replicas/training_reports.h"
#include "services/supervisor/state/change_hub.h"
#include "services/supervisor/state/core.h"

namespace adaptdl::supervisor {

// None is owned; all outlive the service.
struct ReplicaServiceParts {
  Membership* membership = nullptr;
  TrainingReports* reports = nullptr;
  ReplicaSessions* sessions = nullptr;
  const Core* core = nullptr;
  const Lanes* lanes = nullptr;
  ChangeHub* hub = nullptr;
  Streams* streams = nullptr;
  service::Strangers* strangers = nullptr;
  // What replicas are told of how often to send heartbeats.
  absl::Duration heartbeat_period;
};

class ReplicaServiceImpl final : public v1::ReplicaService::CallbackService {
 public:
  explicit ReplicaServiceImpl(const ReplicaServiceParts& parts) : parts_(parts) {}

  grpc::ServerWriteReactor<v1::JoinGroupResponse>* JoinGroup(grpc::CallbackServerContext* context,
                                                             const v1::JoinGroupRequest* request) override;
  grpc::ServerBidiReactor<v1::HeartbeatRequest, v1::HeartbeatResponse>* Heartbeat(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* ReportHints(grpc::CallbackServerContext* context,
                                        const v1::ReportHintsRequest* request,
                                        v1::ReportHintsResponse* response) override;

 private:
  const ReplicaServiceParts parts_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_REPLICA_SERVICE_H_
