// Which trace something is part of: W3C Trace Context, as the header "traceparent" has it.
//
//   "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
//
// Plain values; thread-safe.

#ifndef ADAPTDL_LIBS_TRACING_CONTEXT_H_
#define ADAPTDL_LIBS_TRACING_CONTEXT_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace adaptdl::tracing {

// The header's name, and that of an environment variable by which programs hand a context to those they start.
inline constexpr char kTraceparent[] = "traceparent";
inline constexpr char kTraceparentVariable[] = "TRACEPARENT";

struct Context {
  // 32 and 16 lower-case hexadecimal digits, not all 0. Empty: there is no trace.
  std::string trace_id = {};
  std::string span_id = {};
  // Whether its spans are wanted.
  bool sampled = true;

  bool valid() const { return !trace_id.empty(); }
  bool operator==(const Context&) const = default;
};

// As a header. Empty for no trace.
std::string Format(const Context& context);

// nullopt: it is none. Of versions after 00, what 00 has is read.
std::optional<Context> Parse(absl::string_view traceparent);

// A trace of its own, sampled; and a new span of the same trace. REQUIRES: `parent` is valid.
Context NewTrace();
Context NewSpan(const Context& parent);

}  // namespace adaptdl::tracing

#endif  // ADAPTDL_LIBS_TRACING_CONTEXT_H_
