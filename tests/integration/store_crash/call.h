// One unary call to a supervisor that may be gone.

#ifndef ADAPTDL_TESTS_INTEGRATION_STORE_CRASH_CALL_H_
#define ADAPTDL_TESTS_INTEGRATION_STORE_CRASH_CALL_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "libs/rpc/channel.h"
#include "libs/rpc/status.h"

namespace adaptdl::integration {

template <typename Stub, typename Request, typename Response>
absl::Status Call(Stub* stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                  const Request& request, Response* response) {
  grpc::ClientContext context;
  rpc::SetTimeout(&context, absl::Seconds(20));
  return rpc::FromGrpcStatus((stub->*method)(&context, request, response));
}

// Whether it may have been carried out all the same: the supervisor died, or its disk fails.
inline bool IsUnanswered(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status) ||
         absl::IsDeadlineExceeded(status) || absl::IsCancelled(status);
}

}  // namespace adaptdl::integration

#endif  // ADAPTDL_TESTS_INTEGRATION_STORE_CRASH_CALL_H_
