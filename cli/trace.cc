#include "cli/trace.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/output.h"
#include "libs/tracing/otlp/exporter.h"

namespace adaptdl::cli {

absl::StatusOr<std::unique_ptr<CommandTrace>> CommandTrace::Begin(const std::string& name,
                                                                  const std::string& endpoint,
                                                                  const Clock* clock) {
  const char* variable = std::getenv(tracing::kTraceparentVariable);  // NOLINT(concurrency-mt-unsafe)
  const std::optional<tracing::Context> parent = tracing::Parse(variable == nullptr ? "" : variable);
  tracing::Span span{.name = absl::StrCat("adaptdl ", name), .kind = tracing::Kind::kClient};
  std::shared_ptr<tracing::Tracer> tracer;
  if (endpoint.empty()) {
    if (parent) span.context = *parent;
  } else {
    absl::StatusOr<std::unique_ptr<tracing::Exporter>> exporter =
        tracing::Exporter::Create({.endpoint = endpoint, .service = "adaptdl"},
                                  [](const std::string& why) { Note(absl::StrCat("warning: ", why)); });
    if (!exporter.ok()) return exporter.status();
    tracer = *std::move(exporter);
    span.context = parent ? tracing::NewSpan(*parent) : tracing::NewTrace();
    if (parent) span.parent_span_id = parent->span_id;
  }
  span.begin = clock->Now();
  return std::unique_ptr<CommandTrace>(new CommandTrace(std::move(tracer), std::move(span), clock));
}

CommandTrace::CommandTrace(std::shared_ptr<tracing::Tracer> tracer, tracing::Span span, const Clock* clock)
    : tracer_(std::move(tracer)), span_(std::move(span)), clock_(clock) {
  if (span_.context.valid()) scope_.emplace(span_.context);
}

CommandTrace::~CommandTrace() {
  if (tracer_ == nullptr) return;
  span_.end = clock_->Now();
  tracer_->Take(std::move(span_));
}

}  // namespace adaptdl::cli
