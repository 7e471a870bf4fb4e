// Traces of a real cluster, as a collector gets them.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"
#include "libs/tracing/context.h"
#include "libs/tracing/scope.h"
#include "nlohmann/json.hpp"
#include "tests/integration/test_cluster.h"
#include "tests/libs/http/test_server.h"

namespace adaptdl::integration {
namespace {

using nlohmann::json;
using ::testing::IsSupersetOf;

// Keeps the spans that come in.
class Collector {
 public:
  struct Span {
    std::string service;
    json span;
  };

  std::string url() const { return server_.url(); }

  // Waits until a span of each of these names has come, for the deadline at most. Whether they have.
  bool Await(const std::set<std::string>& names, absl::Duration timeout) {
    const absl::Time deadline = absl::Now() + timeout;
    MutexLock lock(&mutex_);
    while (true) {
      std::set<std::string> missing = names;
      for (const Span& span : spans_) missing.erase(span.span["name"]);
      if (missing.empty()) return true;
      if (!came_.WaitFor(&mutex_, deadline - absl::Now()) && absl::Now() >= deadline) return false;
    }
  }

  std::vector<Span> spans() {
    MutexLock lock(&mutex_);
    return spans_;
  }

 private:
  void Serve(Exchange& exchange) {
    exchange.Answer(200, "{}");
    const json request = json::parse(exchange.request().body);
    MutexLock lock(&mutex_);
    for (const json& resource : request["resourceSpans"]) {
      const std::string service = resource["resource"]["attributes"][0]["value"]["stringValue"];
      for (const json& span : resource["scopeSpans"][0]["spans"]) spans_.push_back({service, span});
    }
    came_.SignalAll();
  }

  Mutex mutex_;
  CondVar came_;
  std::vector<Span> spans_ ABSL_GUARDED_BY(mutex_);
  TestServer server_{[this](Exchange& exchange) { Serve(exchange); }};
};

TEST(TracingTest, AJobIsFollowedThroughAllServicesAndWhenItGrows) {
  Collector collector;
  const std::vector<std::string> flags = {"--otlp-endpoint", collector.url()};
  TestCluster cluster({.workers = 2,
                       .allocator_flags = flags,
                       .worker_flags = [&](int) { return flags; },
                       .supervisor_flags = flags});
  ASSERT_TRUE(cluster.Start().ok());
  const tracing::Context caller = tracing::NewTrace();
  v1::Job job = cluster.MnistJob("a", {"--epochs", "40"});
  job.mutable_spec()->set_max_replicas(2);
  {
    const tracing::Scope scope(caller);
    ASSERT_TRUE(cluster.Submit(job).ok());
  }
  ASSERT_TRUE(
      collector.Await({"submit to first step", "re-scale", "launch replica", "decision"}, absl::Minutes(2)));
  // By the trace of the call: whose spans are in it.
  std::set<std::string> found;
  std::set<std::string> ids = {caller.span_id};
  for (const Collector::Span& span : collector.spans()) {
    if (span.span["traceId"] == caller.trace_id) ids.insert(span.span["spanId"]);
  }
  for (const Collector::Span& span : collector.spans()) {
    if (span.span["traceId"] != caller.trace_id) continue;
    found.insert(span.service + ": " + span.span["name"].get<std::string>());
    EXPECT_TRUE(ids.count(span.span["parentSpanId"]) > 0) << span.span;
  }
  EXPECT_THAT(found, IsSupersetOf({"adaptdl-supervisor: adaptdl.v1.JobService/SubmitJob",
                                   "adaptdl-supervisor: submit to first step", "adaptdl-supervisor: queue",
                                   "adaptdl-supervisor: launch", "adaptdl-supervisor: first step",
                                   "adaptdl-supervisor: adaptdl.v1.ReplicaService/JoinGroup",
                                   "adaptdl-worker: launch replica"}));
  // And of the re-scale: its parts fill it.
  std::map<std::string, std::set<std::string>> parts;
  std::string rescale;
  for (const Collector::Span& span : collector.spans()) {
    if (span.span["name"] == "re-scale" && rescale.empty()) rescale = span.span["spanId"];
    if (span.span.contains("parentSpanId")) parts[span.span["parentSpanId"]].insert(span.span["name"]);
  }
  EXPECT_THAT(parts[rescale],
              IsSupersetOf({"newcomers start", "agree", "rebuild", "synchronize", "first step"}));
}

}  // namespace
}  // namespace adaptdl::integration
