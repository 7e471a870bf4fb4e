// What a command does as a trace, or as a part of the one that it is started in.
//
//   $TRACEPARENT         the trace that it is part of, as others hand it on (W3C Trace Context); it is handed on
//   --otlp-endpoint      where its own span goes: without, there is none
//
// Not thread-safe: begun and ended by the thread that carries the command out, whose calls become part of it.

#ifndef ADAPTDL_CLI_TRACE_H_
#define ADAPTDL_CLI_TRACE_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/tracing/context.h"
#include "libs/tracing/scope.h"
#include "libs/tracing/tracer.h"

namespace adaptdl::cli {

class CommandTrace {
 public:
  // `name`: of the command ("submit"). `endpoint`: may be empty. `clock` outlives it. INVALID_ARGUMENT: the endpoint is
  // none.
  static absl::StatusOr<std::unique_ptr<CommandTrace>> Begin(const std::string& name,
                                                             const std::string& endpoint, const Clock* clock);
  // The span ends, and is sent: for two seconds at most.
  ~CommandTrace();

  void Fail(const absl::Status& status) { span_.error = std::string(status.message()); }

 private:
  CommandTrace(std::shared_ptr<tracing::Tracer> tracer, tracing::Span span, const Clock* clock);

  const std::shared_ptr<tracing::Tracer> tracer_;
  tracing::Span span_;
  const Clock* const clock_;
  std::optional<tracing::Scope> scope_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_TRACE_H_
