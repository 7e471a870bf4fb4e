// Answers of unary calls.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_CALLS_UNARY_H_
#define ADAPTDL_SERVICES_SUPERVISOR_CALLS_UNARY_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "grpcpp/support/server_callback.h"
#include "libs/rpc/status.h"
#include "services/supervisor/calls/lanes.h"

namespace adaptdl::supervisor {

// Makes `call` on `executor` in the name of `caller` (empty: the cluster's own), and ends the gRPC call with
// its result once what it saw and changed is durable. The request and the response live until then.
template <typename Call, typename Response>
grpc::ServerUnaryReactor* AnswerOn(Executor* executor, const std::string& caller, const Lanes* lanes,
                                   grpc::CallbackServerContext* context, Call call, Response* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  executor->Post(caller, [lanes, executor, reactor, call = std::move(call), response] {
    absl::StatusOr<Response> result = executor->invariants()->Guard(
        Response::descriptor()->name(), [&]() -> absl::StatusOr<Response> { return call(); });
    const grpc::Status status = rpc::ToGrpcStatus(result.status());
    if (result.ok()) *response = *std::move(result);
    lanes->durability->WhenDurable([reactor, status] { reactor->Finish(status); });
  });
  return reactor;
}

// A call of the cluster's own: of nodes, the allocator.
template <typename Call, typename Response>
grpc::ServerUnaryReactor* Answer(const Lanes* lanes, grpc::CallbackServerContext* context, Call call,
                                 Response* response) {
  return AnswerOn(lanes->changes, "", lanes, context, std::move(call), response);
}

// A change that a caller asks for.
template <typename Call, typename Response>
grpc::ServerUnaryReactor* AnswerChange(const Lanes* lanes, const std::string& caller,
                                       grpc::CallbackServerContext* context, Call call, Response* response) {
  return AnswerOn(lanes->changes, caller, lanes, context, std::move(call), response);
}

// A call that only reads.
template <typename Call, typename Response>
grpc::ServerUnaryReactor* AnswerRead(const Lanes* lanes, const std::string& caller,
                                     grpc::CallbackServerContext* context, Call call, Response* response) {
  return AnswerOn(lanes->readers, caller, lanes, context, std::move(call), response);
}

// At once.
inline grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(rpc::ToGrpcStatus(status));
  return reactor;
}

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_CALLS_UNARY_H_
