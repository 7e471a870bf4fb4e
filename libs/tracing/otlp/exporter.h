// Sends spans to a collector of OpenTelemetry, by OTLP over HTTP in JSON: those of a moment in one request, by a
// thread of its own.
//
// A collector that is away, slow, or refuses costs spans and nothing else: at most `most_waiting` are kept meanwhile, further ones are
// dropped and counted. What it answers by 429, 502, 503 or 504, and what does not reach it, is sent again (after Retry-After,
// if it says so) until newer spans need the room; all else is dropped.
//
// Thread-safe.

#ifndef ADAPTDL_LIBS_TRACING_OTLP_EXPORTER_H_
#define ADAPTDL_LIBS_TRACING_OTLP_EXPORTER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/tracing/tracer.h"

namespace adaptdl {
class HttpClient;
}

namespace adaptdl::tracing {

struct ExporterOptions {
  // Of the collector: "http://127.0.0.1:4318". "/v1/traces" is added unless it has a path.
  std::string endpoint;
  // "Name: value" each, as a collector may ask for.
  std::vector<std::string> headers = {};
  // Who the spans are from ("service.name").
  std::string service;
  // Spans are collected for so long before they are sent.
  absl::Duration period = absl::Seconds(1);
  size_t most_waiting = 4096;
  // Of one request.
  size_t most_at_once = 512;
  absl::Duration timeout = absl::Seconds(10);
  // How long the end of the process waits for what is not sent yet.
  absl::Duration last_words = absl::Seconds(2);
};

class Exporter final : public Tracer {
 public:
  // Gets what is wrong, for people; from the exporter's thread.
  using Complaint = std::function<void(const std::string& why)>;

  struct Counts {
    int64_t sent = 0;
    int64_t dropped = 0;
  };

  // `complain` is told, not more than once a minute, why spans can't be sent. INVALID_ARGUMENT: the endpoint is no URL of HTTP.
  static absl::StatusOr<std::unique_ptr<Exporter>> Create(const ExporterOptions& options, Complaint complain);
  ~Exporter() override;

  void Take(Span span) override;
  Counts counts() const;

 private:
  Exporter(ExporterOptions options, Complaint complain);
  void Run();
  // Waits until there are spans and a period has passed, or the end is near. Nothing: that was all.
  std::optional<std::vector<Span>> AwaitSpans();
  // How long to wait before the same are sent again; nothing: they are done with.
  std::optional<absl::Duration> Send(const std::vector<Span>& spans);
  void Complain(const std::string& why);
  void PutBack(std::vector<Span> spans);
  void Count(int64_t Counts::*which, size_t spans);

  const ExporterOptions options_;
  const Complaint complain_;
  const std::vector<std::pair<std::string, std::string>> resource_;
  const std::unique_ptr<HttpClient> http_;
  std::stop_source stop_;
  // Used by the thread only.
  absl::Time complained_ = absl::InfinitePast();

  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<Span> waiting_ ABSL_GUARDED_BY(mutex_);
  Counts counts_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time last_moment_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  std::thread thread_;
};

}  // namespace adaptdl::tracing

#endif  // ADAPTDL_LIBS_TRACING_OTLP_EXPORTER_H_
