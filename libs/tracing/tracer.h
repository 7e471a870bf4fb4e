// Spans, and who takes them.
//
// A span is what took a while, with what it was part of: made when it is over, from times that were noted. Programs
// without a tracer (tracing is off) have a null one, and make none.

#ifndef ADAPTDL_LIBS_TRACING_TRACER_H_
#define ADAPTDL_LIBS_TRACING_TRACER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "libs/tracing/context.h"

namespace adaptdl::tracing {

enum class Kind { kInternal = 0, kServer = 1, kClient = 2 };

using Value = std::variant<std::string, int64_t, double, bool>;

struct Span {
  // Few of them: what differs goes into attributes.
  std::string name;
  // Its own.
  Context context = {};
  // The span that it is part of. Empty: it is its trace's first.
  std::string parent_span_id = {};
  Kind kind = Kind::kInternal;
  // By the wall.
  absl::Time begin = absl::InfinitePast();
  absl::Time end = absl::InfinitePast();
  std::vector<std::pair<std::string, Value>> attributes = {};
  // Why it failed, for people. Empty: it did not.
  std::string error = {};
  // Spans of other traces that have to do with it.
  std::vector<Context> links = {};
};

// Thread-safe.
class Tracer {
 public:
  virtual ~Tracer() = default;
  // Takes a span that is over; never waits. Spans of traces that are not sampled are left out.
  virtual void Take(Span span) = 0;
};

}  // namespace adaptdl::tracing

#endif  // ADAPTDL_LIBS_TRACING_TRACER_H_
