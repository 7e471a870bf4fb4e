// Counts, codes and latencies of every gRPC method that a server answers, under the names that the gRPC
// ecosystem shares:
//
//   grpc_server_started_total{grpc_type,grpc_service,grpc_method}
//   grpc_server_handled_total{..., grpc_code}   ended calls by code ("OK", "NOT_FOUND", ...)
//   grpc_server_in_flight{...}                  calls in progress
//   grpc_server_handling_seconds{...}           histogram; unary calls only, as a stream's life says nothing
//   grpc_server_msg_received_total{...}, grpc_server_msg_sent_total{...}   messages of streams
//
// gRPC's interceptors are experimental.

#ifndef ADAPTDL_LIBS_SERVICE_RPC_METRICS_H_
#define ADAPTDL_LIBS_SERVICE_RPC_METRICS_H_

#include <memory>

#include "grpcpp/support/server_interceptor.h"
#include "prometheus/registry.h"

namespace adaptdl::service {

// For a server's builder: what makes the server count into `registry`.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeRpcMetrics(
    std::shared_ptr<prometheus::Registry> registry);

}  // namespace adaptdl::service

#endif  // ADAPTDL_LIBS_SERVICE_RPC_METRICS_H_
