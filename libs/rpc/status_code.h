// What a call ended with, as those who may try again have to take it.
//
// Thread-safe: a pure function.

#ifndef ADAPTDL_LIBS_RPC_STATUS_CODE_H_
#define ADAPTDL_LIBS_RPC_STATUS_CODE_H_

#include "grpcpp/support/status.h"

namespace adaptdl::rpc {

// The status's code; UNAVAILABLE of a connection that broke in the middle of the call, which gRPC calls UNKNOWN ("Stream
// removed"), as no server of ours answers. With TLS that happens now and then while nothing is wrong: gRPC takes an error
// that OpenSSL has kept of some other connection for one of this.
grpc::StatusCode CodeOf(const grpc::Status& status);

}  // namespace adaptdl::rpc

#endif  // ADAPTDL_LIBS_RPC_STATUS_CODE_H_
