// Answers of unary calls.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_UNARY_H_
#define ADAPTDL_SERVICES_SUPERVISOR_UNARY_H_

#include <utility>

#include "absl/status/statusor.h"
#include "grpcpp/support/server_callback.h"
#include "libs/rpc/status.h"

namespace adaptdl::supervisor {

// Ends the call with the result, or with its error.
template <typename Response>
grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, absl::StatusOr<Response> result,
                                 Response* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (result.ok()) *response = *std::move(result);
  reactor->Finish(rpc::ToGrpcStatus(result.status()));
  return reactor;
}

inline grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(rpc::ToGrpcStatus(status));
  return reactor;
}

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_UNARY_H_
