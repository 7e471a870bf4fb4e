#include "libs/tracing/otlp/exporter.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"
#include "nlohmann/json.hpp"
#include "tests/libs/http/test_server.h"

namespace adaptdl::tracing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// A collector that answers as it is told, in turn, the last answer for ever.
class Collector {
 public:
  explicit Collector(std::vector<int> answers)
      : answers_(std::move(answers)), server_([this](Exchange& exchange) { Serve(exchange); }) {}

  std::string url() const { return server_.url(); }

  // The requests, once there are so many.
  std::vector<ServedRequest> Await(size_t count) {
    MutexLock lock(&mutex_);
    while (requests_.size() < count) came_.Wait(&mutex_);
    return requests_;
  }

 private:
  void Serve(Exchange& exchange) {
    int answer = 200;
    {
      MutexLock lock(&mutex_);
      answer = answers_[std::min(requests_.size(), answers_.size() - 1)];
    }
    exchange.Answer(answer, "{}");
    MutexLock lock(&mutex_);
    requests_.push_back(exchange.request());
    came_.SignalAll();
  }

  const std::vector<int> answers_;
  Mutex mutex_;
  CondVar came_;
  std::vector<ServedRequest> requests_ ABSL_GUARDED_BY(mutex_);
  TestServer server_;
};

Span NewSpanNamed(const std::string& name) {
  return {.name = name, .context = NewTrace(), .begin = absl::UnixEpoch(), .end = absl::UnixEpoch()};
}

ExporterOptions OptionsFor(const std::string& endpoint) {
  return {.endpoint = endpoint, .service = "tester", .period = absl::Milliseconds(1)};
}

std::unique_ptr<Exporter> Make(const ExporterOptions& options, Exporter::Complaint complain = nullptr) {
  auto exporter = Exporter::Create(options, std::move(complain));
  EXPECT_TRUE(exporter.ok()) << exporter.status();
  return *std::move(exporter);
}

size_t SpansIn(const ServedRequest& request) {
  return nlohmann::json::parse(request.body)["resourceSpans"][0]["scopeSpans"][0]["spans"].size();
}

TEST(ExporterTest, PostsSpansToTheCollector) {
  Collector collector({200});
  ExporterOptions options = OptionsFor(collector.url());
  options.headers = {"Authorization: Bearer secret"};
  const auto exporter = Make(options);
  exporter->Take(NewSpanNamed("one"));
  const ServedRequest request = collector.Await(1)[0];
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/v1/traces");
  EXPECT_EQ(request.headers.at("content-type"), "application/json");
  EXPECT_EQ(request.headers.at("authorization"), "Bearer secret");
  EXPECT_THAT(request.body, HasSubstr("\"one\""));
  EXPECT_THAT(request.body, HasSubstr("tester"));
}

TEST(ExporterTest, SendsWhatIsLeftAtItsEnd) {
  Collector collector({200});
  ExporterOptions options = OptionsFor(collector.url() + "/own/path");
  options.period = absl::Hours(1);
  options.most_at_once = 2;
  auto exporter = Make(options);
  exporter->Take(NewSpanNamed("one"));
  exporter = nullptr;
  EXPECT_EQ(collector.Await(1)[0].target, "/own/path");
}

TEST(ExporterTest, DoesNotSendMoreThanFitsIntoARequest) {
  Collector collector({200});
  ExporterOptions options = OptionsFor(collector.url());
  options.period = absl::Hours(1);
  options.most_at_once = 2;
  const auto exporter = Make(options);
  for (int i = 0; i < 4; ++i) exporter->Take(NewSpanNamed(absl::StrCat(i)));
  const std::vector<ServedRequest> requests = collector.Await(2);
  EXPECT_EQ(SpansIn(requests[0]), 2u);
  EXPECT_EQ(SpansIn(requests[1]), 2u);
}

TEST(ExporterTest, SendsAgainWhatTheCollectorHasNoTimeFor) {
  Collector collector({503, 200});
  const auto exporter = Make(OptionsFor(collector.url()));
  exporter->Take(NewSpanNamed("one"));
  const std::vector<ServedRequest> requests = collector.Await(2);
  EXPECT_EQ(requests[0].body, requests[1].body);
}

TEST(ExporterTest, DropsWhatTheCollectorRefuses) {
  Collector collector({400});
  std::string complaint;
  auto exporter = Make(OptionsFor(collector.url()), [&](const std::string& why) { complaint = why; });
  exporter->Take(NewSpanNamed("one"));
  collector.Await(1);
  exporter = nullptr;
  EXPECT_THAT(collector.Await(1), SizeIs(1));
  EXPECT_THAT(complaint, HasSubstr("it answers 400"));
}

TEST(ExporterTest, KeepsTheNewestWhileNobodyTakesThem) {
  ExporterOptions options = OptionsFor("http://127.0.0.1:1");
  options.period = absl::Hours(1);
  options.most_waiting = 3;
  options.most_at_once = 10;
  options.last_words = absl::ZeroDuration();
  const auto exporter = Make(options);
  for (int i = 0; i < 5; ++i) exporter->Take(NewSpanNamed(absl::StrCat(i)));
  EXPECT_EQ(exporter->counts().dropped, 2);
}

TEST(ExporterTest, LeavesOutWhatIsNotSampled) {
  ExporterOptions options = OptionsFor("http://127.0.0.1:1");
  const auto exporter = Make(options);
  Span span = NewSpanNamed("one");
  span.context.sampled = false;
  exporter->Take(span);
  exporter->Take({});
  EXPECT_EQ(exporter->counts().dropped, 0);
}

TEST(ExporterTest, NamesAnEndpointThatIsNone) {
  for (const char* endpoint : {"", "127.0.0.1:4318", "ftp://host", "http://", "http:///v1/traces"}) {
    const auto exporter = Exporter::Create(OptionsFor(endpoint), nullptr);
    EXPECT_EQ(exporter.status().code(), absl::StatusCode::kInvalidArgument) << endpoint;
    EXPECT_THAT(exporter.status().message(), HasSubstr("--otlp-endpoint"));
  }
}

}  // namespace
}  // namespace adaptdl::tracing
