// Answers of unary calls.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_UNARY_H_
#define ADAPTDL_SERVICES_SUPERVISOR_UNARY_H_

#include <utility>

#include "absl/status/statusor.h"
#include "grpcpp/support/server_callback.h"
#include "libs/rpc/status.h"
#include "services/supervisor/cluster_state.h"

namespace adaptdl::supervisor {

// Makes `call` on the state's executor, and ends the gRPC call with its result once what it saw and changed
// is durable. The request and the response live until then.
template <typename Call, typename Response>
grpc::ServerUnaryReactor* Answer(const ClusterState* state, grpc::CallbackServerContext* context, Call call,
                                 Response* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  state->executor()->Post([state, reactor, call = std::move(call), response] {
    absl::StatusOr<Response> result = state->executor()->invariants()->Guard(
        Response::descriptor()->name(), [&]() -> absl::StatusOr<Response> { return call(); });
    const grpc::Status status = rpc::ToGrpcStatus(result.status());
    if (result.ok()) *response = *std::move(result);
    state->durability()->WhenDurable([reactor, status] { reactor->Finish(status); });
  });
  return reactor;
}

// At once.
inline grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(rpc::ToGrpcStatus(status));
  return reactor;
}

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_UNARY_H_
