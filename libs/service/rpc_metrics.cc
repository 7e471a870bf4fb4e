#include "libs/service/rpc_metrics.h"

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "grpcpp/support/server_interceptor.h"
#include "libs/base/mutex.h"
#include "prometheus/counter.h"
#include "prometheus/family.h"
#include "prometheus/gauge.h"
#include "prometheus/histogram.h"

namespace adaptdl::service {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

// Number of canonical codes; larger ones count as UNKNOWN.
constexpr int kCodes = 17;

// From a fifth of a millisecond (a heartbeat) to ten seconds (a submit to a slow disk).
const prometheus::Histogram::BucketBoundaries kSeconds = {0.0002, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                          0.05,   0.1,    0.25,  0.5,    1,     2.5,  10};

const char* TypeName(ServerRpcInfo::Type type) {
  switch (type) {
    case ServerRpcInfo::Type::UNARY:
      return "unary";
    case ServerRpcInfo::Type::CLIENT_STREAMING:
      return "client_stream";
    case ServerRpcInfo::Type::SERVER_STREAMING:
      return "server_stream";
    case ServerRpcInfo::Type::BIDI_STREAMING:
      return "bidi_stream";
  }
  return "unknown";
}

// The metrics of one method. Thread-safe.
class MethodMetrics {
 public:
  struct Families {
    prometheus::Family<prometheus::Counter>& started;
    prometheus::Family<prometheus::Counter>& handled;
    prometheus::Family<prometheus::Gauge>& in_flight;
    prometheus::Family<prometheus::Histogram>& seconds;
    prometheus::Family<prometheus::Counter>& received;
    prometheus::Family<prometheus::Counter>& sent;
  };

  MethodMetrics(const Families& families, const prometheus::Labels& labels, bool unary)
      : labels_(labels),
        handled_family_(families.handled),
        started_(families.started.Add(labels)),
        in_flight_(families.in_flight.Add(labels)),
        seconds_(unary ? &families.seconds.Add(labels, kSeconds) : nullptr),
        received_(unary ? nullptr : &families.received.Add(labels)),
        sent_(unary ? nullptr : &families.sent.Add(labels)) {}

  void Start() {
    started_.Increment();
    in_flight_.Increment();
  }
  void Received() {
    if (received_ != nullptr) received_->Increment();
  }
  void Sent() {
    if (sent_ != nullptr) sent_->Increment();
  }
  void End(int code, double seconds) {
    in_flight_.Decrement();
    if (seconds_ != nullptr) seconds_->Observe(seconds);
    Handled(code < 0 || code >= kCodes ? static_cast<int>(absl::StatusCode::kUnknown) : code).Increment();
  }

 private:
  prometheus::Counter& Handled(int code) {
    MutexLock lock(&mutex_);
    if (handled_[code] == nullptr) {
      prometheus::Labels labels = labels_;
      labels["grpc_code"] = absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
      handled_[code] = &handled_family_.Add(labels);
    }
    return *handled_[code];
  }

  const prometheus::Labels labels_;
  prometheus::Family<prometheus::Counter>& handled_family_;
  prometheus::Counter& started_;
  prometheus::Gauge& in_flight_;
  prometheus::Histogram* const seconds_;
  prometheus::Counter* const received_;
  prometheus::Counter* const sent_;
  Mutex mutex_;
  std::array<prometheus::Counter*, kCodes> handled_ ABSL_GUARDED_BY(mutex_) = {};
};

// One per call. gRPC destroys it when the call is over.
class MetricsInterceptor final : public grpc::experimental::Interceptor {
 public:
  explicit MetricsInterceptor(std::shared_ptr<MethodMetrics> metrics)
      : metrics_(std::move(metrics)), start_(std::chrono::steady_clock::now()) {
    metrics_->Start();
  }

  ~MetricsInterceptor() override {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    metrics_->End(code_, elapsed.count());
  }

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      code_ = methods->GetSendStatus().error_code();
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE)) metrics_->Sent();
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE) &&
        methods->GetRecvMessage() != nullptr) {
      metrics_->Received();
    }
    methods->Proceed();
  }

 private:
  const std::shared_ptr<MethodMetrics> metrics_;
  const std::chrono::steady_clock::time_point start_;
  // A call that ends without a status was cancelled.
  int code_ = grpc::StatusCode::CANCELLED;
};

// Thread-safe: calls begin on many threads.
class MetricsFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit MetricsFactory(std::shared_ptr<prometheus::Registry> registry)
      : registry_(std::move(registry)),
        families_{
            prometheus::BuildCounter()
                .Name("grpc_server_started_total")
                .Help("Calls that began.")
                .Register(*registry_),
            prometheus::BuildCounter()
                .Name("grpc_server_handled_total")
                .Help("Calls that ended, by code.")
                .Register(*registry_),
            prometheus::BuildGauge()
                .Name("grpc_server_in_flight")
                .Help("Calls in progress.")
                .Register(*registry_),
            prometheus::BuildHistogram()
                .Name("grpc_server_handling_seconds")
                .Help("Time from begin to end of unary calls, in seconds.")
                .Register(*registry_),
            prometheus::BuildCounter()
                .Name("grpc_server_msg_received_total")
                .Help("Messages received on streams.")
                .Register(*registry_),
            prometheus::BuildCounter()
                .Name("grpc_server_msg_sent_total")
                .Help("Messages sent on streams.")
                .Register(*registry_),
        } {}

  grpc::experimental::Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    return new MetricsInterceptor(ForMethod(info->method(), info->type()));
  }

 private:
  // Only methods of registered services get here, so what clients send can't make the map grow.
  std::shared_ptr<MethodMetrics> ForMethod(const std::string& path, ServerRpcInfo::Type type) {
    MutexLock lock(&mutex_);
    std::shared_ptr<MethodMetrics>& metrics = methods_[path];
    if (metrics == nullptr) {
      // "/package.Service/Method"
      const std::vector<std::string> parts =
          absl::StrSplit(absl::StripPrefix(path, "/"), absl::MaxSplits('/', 1));
      const prometheus::Labels labels = {
          {"grpc_type", TypeName(type)}, {"grpc_service", parts.front()}, {"grpc_method", parts.back()}};
      metrics = std::make_shared<MethodMetrics>(families_, labels, type == ServerRpcInfo::Type::UNARY);
    }
    return metrics;
  }

  const std::shared_ptr<prometheus::Registry> registry_;
  const MethodMetrics::Families families_;
  Mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<MethodMetrics>> methods_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeRpcMetrics(
    std::shared_ptr<prometheus::Registry> registry) {
  return std::make_unique<MetricsFactory>(std::move(registry));
}

}  // namespace adaptdl::service
