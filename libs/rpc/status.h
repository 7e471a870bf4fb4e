// absl::Status at the gRPC edge. The codes are the same numbers on both sides, and payloads of the one are
// details (google.rpc.Status) of the other. Thread-safe.

#ifndef ADAPTDL_LIBS_RPC_STATUS_H_
#define ADAPTDL_LIBS_RPC_STATUS_H_

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace adaptdl::rpc {

grpc::Status ToGrpcStatus(const absl::Status& status);
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace adaptdl::rpc

#endif  // ADAPTDL_LIBS_RPC_STATUS_H_
