// Spans as a request of OTLP over HTTP, in JSON: the protobuf message ExportTraceServiceRequest of OpenTelemetry's protocol
// (1.0), by protobuf's mapping to JSON but for ids, which are hexadecimal there.
//
// Pure; thread-safe.

#ifndef ADAPTDL_LIBS_TRACING_OTLP_JSON_H_
#define ADAPTDL_LIBS_TRACING_OTLP_JSON_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "libs/tracing/tracer.h"

namespace adaptdl::tracing {

// `resource`: who the spans are from, such as {"service.name", "adaptdl-supervisor"}.
std::string ToOtlpJson(absl::Span<const Span> spans,
                       const std::vector<std::pair<std::string, std::string>>& resource);

}  // namespace adaptdl::tracing

#endif  // ADAPTDL_LIBS_TRACING_OTLP_JSON_H_
