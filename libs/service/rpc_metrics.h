// Counts, codes and latencies of every gRPC method that a server answers, under the names that the gRPC
// ecosystem shares:
//
//   grpc_server_started_total{grpc_type,grpc_service,grpc_method}
//   grpc_server_handled_total{..., grpc_code}   ended calls by code ("OK", "NOT_FOUND", ...)
//   grpc_server_in_flight{...}                  calls in progress
//   grpc_server_handling_seconds{...}           histogram; unary calls only, as a stream's life says nothing
//   grpc_server_msg_received_total{...}, grpc_server_msg_sent_total{...}   messages of streams
//
// gRPC's interceptors are experimental: the implementation is the only file that touches them.

#ifndef ADAPTDL_LIBS_SERVICE_RPC_METRICS_H_
#define ADAPTDL_LIBS_SERVICE_RPC_METRICS_H_

#include <memory>

#include "grpcpp/server_builder.h"
#include "prometheus/registry.h"

namespace adaptdl::service {

// Makes the server that `builder` builds count into `registry`. Call it once per builder.
void InstallRpcMetrics(grpc::ServerBuilder* builder, std::shared_ptr<prometheus::Registry> registry);

}  // namespace adaptdl::service

#endif  // ADAPTDL_LIBS_SERVICE_RPC_METRICS_H_
