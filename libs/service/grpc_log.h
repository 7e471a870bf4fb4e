// gRPC's own messages as records of our log, instead of bare lines beside it.

#ifndef ADAPTDL_LIBS_SERVICE_GRPC_LOG_H_
#define ADAPTDL_LIBS_SERVICE_GRPC_LOG_H_

namespace adaptdl::service {

// From now on, in the whole process. Thread-safe and idempotent.
void RouteGrpcLog();

}  // namespace adaptdl::service

#endif  // ADAPTDL_LIBS_SERVICE_GRPC_LOG_H_
