#include "libs/service/tracing.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "CLI/Option.hpp"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/base/file.h"
#include "libs/service/flags.h"
#include "libs/service/log.h"
#include "libs/tracing/context.h"
#include "libs/tracing/otlp/exporter.h"

namespace adaptdl::service {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

absl::StatusOr<std::vector<std::string>> ReadHeaders(const std::string& path) {
  std::vector<std::string> headers;
  if (path.empty()) return headers;
  const absl::StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--otlp-headers-file: ", text.status().message()));
  }
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    const absl::string_view header = absl::StripAsciiWhitespace(line);
    if (header.empty()) continue;
    if (header.find(':') == absl::string_view::npos || header.front() == ':') {
      return absl::InvalidArgumentError(
          absl::StrCat("--otlp-headers-file ", path, ": a line is no header: write \"Name: value\""));
    }
    headers.emplace_back(header);
  }
  return headers;
}

// One per call. gRPC destroys it when the call is over.
class SpanInterceptor final : public grpc::experimental::Interceptor {
 public:
  SpanInterceptor(std::shared_ptr<tracing::Tracer> tracer, const Clock* clock, std::string method)
      : tracer_(std::move(tracer)), clock_(clock), method_(std::move(method)), begin_(clock->Now()) {}

  ~SpanInterceptor() override {
    if (!parent_ || !parent_->sampled) return;
    const std::pair<std::string, std::string> names = absl::StrSplit(method_, absl::MaxSplits('/', 1));
    tracer_->Take({.name = method_,
                   .context = tracing::NewSpan(*parent_),
                   .parent_span_id = parent_->span_id,
                   .kind = tracing::Kind::kServer,
                   .begin = begin_,
                   .end = clock_->Now(),
                   .attributes = {{"rpc.system", "grpc"},
                                  {"rpc.service", names.first},
                                  {"rpc.method", names.second},
                                  {"rpc.grpc.status_code", int64_t{code_}}},
                   .error = code_ == 0 ? "" : error_});
  }

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      TakeParent(methods->GetRecvInitialMetadata());
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      code_ = status.error_code();
      error_ = status.error_message();
    }
    methods->Proceed();
  }

 private:
  void TakeParent(const std::multimap<grpc::string_ref, grpc::string_ref>* metadata) {
    if (metadata == nullptr) return;
    const auto found = metadata->find(tracing::kTraceparent);
    if (found == metadata->end()) return;
    parent_ = tracing::Parse(absl::string_view(found->second.data(), found->second.size()));
  }

  const std::shared_ptr<tracing::Tracer> tracer_;
  const Clock* const clock_;
  const std::string method_;
  const absl::Time begin_;
  std::optional<tracing::Context> parent_;
  // A call that ends without a status was cancelled.
  int code_ = grpc::StatusCode::CANCELLED;
  std::string error_ = "the call was cancelled";
};

// Thread-safe: calls begin on many threads.
class SpanInterceptors final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  SpanInterceptors(std::shared_ptr<tracing::Tracer> tracer, const Clock* clock)
      : tracer_(std::move(tracer)), clock_(clock) {}

  // Null: none. Streams in both directions are connections rather than calls.
  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    if (info->type() == ServerRpcInfo::Type::BIDI_STREAMING) return nullptr;
    return new SpanInterceptor(tracer_, clock_, std::string(absl::StripPrefix(info->method(), "/")));
  }

 private:
  const std::shared_ptr<tracing::Tracer> tracer_;
  const Clock* const clock_;
};

}  // namespace

void AddTracingFlags(CLI::App& app, TracingOptions* options) {
  ReadFromEnvironment(app.add_option("--otlp-endpoint", options->otlp_endpoint,
                                     "Collector that gets traces, by OTLP over HTTP, such as "
                                     "http://127.0.0.1:4318 (empty: no tracing)")
                          ->type_name("URL"));
  ReadFromEnvironment(app.add_option("--otlp-headers-file", options->otlp_headers_file,
                                     "File with headers that the collector asks for, one per line")
                          ->type_name("FILE"));
}

absl::StatusOr<std::shared_ptr<tracing::Tracer>> MakeTracer(const TracingOptions& options,
                                                            const std::string& service) {
  if (options.otlp_endpoint.empty()) return nullptr;
  absl::StatusOr<std::vector<std::string>> headers = ReadHeaders(options.otlp_headers_file);
  if (!headers.ok()) return headers.status();
  absl::StatusOr<std::unique_ptr<tracing::Exporter>> exporter = tracing::Exporter::Create(
      {.endpoint = options.otlp_endpoint, .headers = *std::move(headers), .service = service},
      [](const std::string& why) {
        log::Warning("tracing", {{"problem", why}});
      });
  if (!exporter.ok()) return exporter.status();
  return std::shared_ptr<tracing::Tracer>(*std::move(exporter));
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeCallSpans(
    std::shared_ptr<tracing::Tracer> tracer, const Clock* clock) {
  return std::make_unique<SpanInterceptors>(std::move(tracer), clock);
}

}  // namespace adaptdl::service
