#include "libs/tracing/otlp/exporter.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/base/backoff.h"
#include "libs/base/clock.h"
#include "libs/base/version.h"
#include "libs/http/http_client.h"
#include "libs/tracing/otlp/json.h"

namespace adaptdl::tracing {
namespace {

constexpr absl::Duration kBetweenComplaints = absl::Minutes(1);
constexpr absl::Duration kFirstPause = absl::Seconds(1);
constexpr absl::Duration kLongestPause = absl::Seconds(30);
constexpr size_t kMaxAnswer = size_t{1} << 20;

// With the path that the protocol gives to spans, unless it has one.
absl::StatusOr<std::string> UrlOf(const std::string& endpoint) {
  absl::string_view rest = endpoint;
  if (!absl::ConsumePrefix(&rest, "http://") && !absl::ConsumePrefix(&rest, "https://")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--otlp-endpoint \"", endpoint, "\" is no URL of HTTP: give one like http://127.0.0.1:4318"));
  }
  const size_t slash = rest.find('/');
  const bool has_path = slash != absl::string_view::npos && slash + 1 < rest.size();
  if (rest.empty() || slash == 0) {
    return absl::InvalidArgumentError(absl::StrCat("--otlp-endpoint \"", endpoint, "\" has no host"));
  }
  return has_path ? endpoint : absl::StrCat(absl::StripSuffix(endpoint, "/"), "/v1/traces");
}

bool IsWorthAnotherTry(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Exporter>> Exporter::Create(const ExporterOptions& options,
                                                           Complaint complain) {
  const absl::StatusOr<std::string> url = UrlOf(options.endpoint);
  if (!url.ok()) return url.status();
  ExporterOptions complete = options;
  complete.endpoint = *url;
  return std::unique_ptr<Exporter>(new Exporter(std::move(complete), std::move(complain)));
}

Exporter::Exporter(ExporterOptions options, Complaint complain)
    : options_(std::move(options)),
      complain_(std::move(complain)),
      resource_({{"service.name", options_.service}, {"service.version", Version()}}),
      http_(std::make_unique<HttpClient>(
          HttpClientOptions{.connect_timeout = absl::Seconds(5), .max_body_bytes = kMaxAnswer})),
      thread_([this] { Run(); }) {}

Exporter::~Exporter() {
  {
    MutexLock lock(&mutex_);
    ending_ = true;
    last_moment_ = SteadyNow() + options_.last_words;
    wake_.SignalAll();
    // The thread ends by itself when it has sent everything.
    while (last_moment_ != absl::InfinitePast() && SteadyNow() < last_moment_) {
      wake_.WaitFor(&mutex_, last_moment_ - SteadyNow());
    }
  }
  stop_.request_stop();
  thread_.join();
}

void Exporter::Take(Span span) {
  if (!span.context.valid() || !span.context.sampled) return;
  MutexLock lock(&mutex_);
  if (waiting_.size() >= std::max<size_t>(options_.most_waiting, 1)) {
    waiting_.pop_front();
    ++counts_.dropped;
  }
  waiting_.push_back(std::move(span));
  if (waiting_.size() == 1 || waiting_.size() == options_.most_at_once) wake_.SignalAll();
}

Exporter::Counts Exporter::counts() const {
  MutexLock lock(&mutex_);
  return counts_;
}

std::optional<std::vector<Span>> Exporter::AwaitSpans() {
  MutexLock lock(&mutex_);
  while (waiting_.empty() && !ending_) wake_.Wait(&mutex_);
  const absl::Time due = SteadyNow() + options_.period;
  while (!ending_ && waiting_.size() < options_.most_at_once && SteadyNow() < due) {
    wake_.WaitFor(&mutex_, due - SteadyNow());
  }
  if (waiting_.empty()) return std::nullopt;
  const auto end =
      waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(waiting_.size(), options_.most_at_once));
  std::vector<Span> spans(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
  waiting_.erase(waiting_.begin(), end);
  return spans;
}

void Exporter::Run() {
  Backoff backoff(kFirstPause, kLongestPause);
  while (std::optional<std::vector<Span>> spans = AwaitSpans()) {
    const std::optional<absl::Duration> pause = Send(*spans);
    if (!pause) {
      backoff.Reset();
      continue;
    }
    PutBack(*std::move(spans));
    const absl::Time again = SteadyNow() + std::max(*pause, backoff.Next());
    MutexLock lock(&mutex_);
    if (ending_) break;  // It was the last try.
    while (!ending_ && SteadyNow() < again) wake_.WaitFor(&mutex_, again - SteadyNow());
  }
  MutexLock lock(&mutex_);
  last_moment_ = absl::InfinitePast();
  wake_.SignalAll();
}

std::optional<absl::Duration> Exporter::Send(const std::vector<Span>& spans) {
  HttpRequest request{.method = "POST", .url = options_.endpoint, .headers = options_.headers};
  request.headers.emplace_back("Content-Type: application/json");
  request.body = ToOtlpJson(spans, resource_);
  request.timeout = options_.timeout;
  const absl::StatusOr<HttpResponse> answer = http_->Send(request, stop_.get_token());
  if (answer.ok() && answer->status / 100 == 2) {
    Count(&Counts::sent, spans.size());
    return std::nullopt;
  }
  Complain(answer.ok() ? absl::StrCat("it answers ", answer->status, ": ", answer->body.substr(0, 200))
                       : std::string(answer.status().message()));
  if (!answer.ok() || IsWorthAnotherTry(answer->status)) {
    return answer.ok() ? answer->retry_after.value_or(absl::ZeroDuration()) : absl::ZeroDuration();
  }
  Count(&Counts::dropped, spans.size());
  return std::nullopt;
}

void Exporter::Complain(const std::string& why) {
  if (!complain_ || SteadyNow() - complained_ < kBetweenComplaints) return;
  complained_ = SteadyNow();
  complain_(absl::StrCat("spans can't be sent to ", options_.endpoint, ": ", why));
}

void Exporter::PutBack(std::vector<Span> spans) {
  MutexLock lock(&mutex_);
  // The newest are worth most.
  while (!spans.empty() && waiting_.size() < options_.most_waiting) {
    waiting_.push_front(std::move(spans.back()));
    spans.pop_back();
  }
  counts_.dropped += static_cast<int64_t>(spans.size());
}

void Exporter::Count(int64_t Counts::*which, size_t spans) {
  MutexLock lock(&mutex_);
  counts_.*which += static_cast<int64_t>(spans);
}

}  // namespace adaptdl::tracing
