// Tracing of a server: where its spans go, and spans of the calls that it answers.
//
// Off unless --otlp-endpoint is given.

#ifndef ADAPTDL_LIBS_SERVICE_TRACING_H_
#define ADAPTDL_LIBS_SERVICE_TRACING_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/support/server_interceptor.h"
#include "libs/base/clock.h"
#include "libs/tracing/tracer.h"

namespace CLI {
class App;
}

namespace adaptdl::service {

struct TracingOptions {
  // Of a collector: "http://127.0.0.1:4318". Empty: there is no tracing.
  std::string otlp_endpoint;
  // File with a header per line that the collector asks for ("Authorization: Bearer ..."). Empty: none.
  std::string otlp_headers_file;
};

// Adds the flags --otlp-endpoint and --otlp-headers-file to `app`. `options` must outlive the parsing.
void AddTracingFlags(CLI::App& app, TracingOptions* options);

// Null: there is none. `service`: whose spans they are ("adaptdl-supervisor"). INVALID_ARGUMENT: an option is wrong.
absl::StatusOr<std::shared_ptr<tracing::Tracer>> MakeTracer(const TracingOptions& options,
                                                            const std::string& service);

// For a server's builder: a span for each call that comes with a traceparent, but for streams in both directions. `tracer` is not null; `clock` outlives the
// server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeCallSpans(
    std::shared_ptr<tracing::Tracer> tracer, const Clock* clock);

}  // namespace adaptdl::service

#endif  // ADAPTDL_LIBS_SERVICE_TRACING_H_
