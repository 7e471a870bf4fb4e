// Logs, from a server that sends them in parts, late, and not to the end.

#include "services/supervisor/kubernetes/logs/pod_logs.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/libs/kube/client/api_fixture.h"

namespace adaptdl::supervisor {
namespace {

using State = ReaderState;

constexpr char kPodRuns[] = R"({"status": {"phase": "Running"}})";
constexpr char kPodEnded[] = R"({"status": {"phase": "Running", "containerStatuses": [
  {"name": "main", "state": {"terminated": {"exitCode": 0}}}]}})";

class PodLogsTest : public kube::ApiTest {
 protected:
  // Answers calls for the log in turn by these, and for the pod that it runs until all but the last were.
  void ServeLog(std::vector<TestServer::Handler> logs) {
    Serve([this, logs = std::move(logs)](Exchange& exchange) {
      if (exchange.request().Path() == "/api/v1/namespaces/default/pods/r") {
        return exchange.Answer(200, calls_ + 1 < static_cast<int>(logs.size()) ? kPodRuns : kPodEnded);
      }
      EXPECT_EQ(exchange.request().Path(), "/api/v1/namespaces/default/pods/r/log");
      EXPECT_EQ(exchange.request().Argument("timestamps"), "true");
      EXPECT_EQ(exchange.request().Argument("container"), "main");
      const size_t call = calls_++;
      ASSERT_LT(call, logs.size());
      logs[call](exchange);
    });
    logs_ = std::make_unique<PodLogs>(client_.get(), options_of_logs_);
  }
  std::shared_ptr<PodLogReader> Start(bool follow, int tail_lines = 0) {
    return logs_->Start(
        {.pod = {"default", "r"}, .container = "main", .follow = follow, .tail_lines = tail_lines}, Notify());
  }
  std::function<void()> Notify() {
    return [this] {
      MutexLock lock(&mutex_);
      ++notified_;
      changed_.SignalAll();
    };
  }
  State Await(const PodLogReader& reader) {
    MutexLock lock(&mutex_);
    while (reader.state() == State::kWaiting) changed_.Wait(&mutex_);
    return reader.state();
  }
  // The texts of all lines until it is done.
  std::string ReadAll(PodLogReader* reader) {
    std::string text;
    while (Await(*reader) == State::kReady) {
      const v1::StreamReplicaLogsResponse taken = reader->Take();
      for (const v1::LogLine& line : taken.lines()) text += line.text() + "|";
    }
    return text;
  }
  static TestServer::Handler Whole(const std::string& text) {
    return [text](Exchange& exchange) { exchange.Answer(200, text); };
  }
  static TestServer::Handler CutAfter(const std::string& text) {
    return [text](Exchange& exchange) {
      exchange.Begin(200);
      exchange.Part(text);
      exchange.Cut();
    };
  }
  ~PodLogsTest() override { logs_.reset(); }

  PodLogsOptions options_of_logs_;
  Mutex mutex_;
  CondVar changed_;
  int notified_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<PodLogs> logs_;
};

TEST_F(PodLogsTest, WhatIsThereNow) {
  ServeLog({[](Exchange& exchange) {
    EXPECT_EQ(exchange.request().Argument("tailLines"), "2");
    EXPECT_EQ(exchange.request().Argument("follow"), "");
    exchange.Answer(200, "2026-01-02T03:04:05Z a\n2026-01-02T03:04:06Z b\n");
  }});
  const auto reader = Start(false, 2);
  EXPECT_EQ(ReadAll(reader.get()), "a|b|");
  EXPECT_TRUE(reader->status().ok());
}

TEST_F(PodLogsTest, AFollowedLogGoesOnWhereItWasCut) {
  ServeLog({CutAfter("2026-01-02T03:04:05Z a\n2026-01-02T03:04:06.25Z b\n2026-01-02T03:04"),
            [](Exchange& exchange) {
              EXPECT_EQ(exchange.request().Argument("follow"), "true");
              EXPECT_EQ(exchange.request().Argument("sinceTime"), "2026-01-02T03:04:06Z");
              exchange.Answer(200, "2026-01-02T03:04:06.25Z b\n2026-01-02T03:04:06.5Z c\n");
            },
            Whole("2026-01-02T03:04:06.25Z b\n2026-01-02T03:04:06.5Z c\n2026-01-02T03:04:07Z d\n")});
  const auto reader = Start(true);
  EXPECT_EQ(ReadAll(reader.get()), "a|b|c|d|");
  EXPECT_TRUE(reader->status().ok());
}

TEST_F(PodLogsTest, TheLastLinesWithAPatternAndThenWhatFollows) {
  const std::string lines =
      "2026-01-02T03:04:05Z loss 1\n2026-01-02T03:04:06Z x\n2026-01-02T03:04:07Z loss 2\n"
      "2026-01-02T03:04:08Z loss 3\n2026-01-02T03:04:09Z y\n";
  const auto all = [lines](Exchange& exchange) {
    EXPECT_EQ(exchange.request().Argument("tailLines"), "");
    EXPECT_EQ(exchange.request().Argument("sinceTime"), "2026-01-02T03:04:05Z");
    exchange.Answer(200, lines);
  };
  ServeLog({all, all, [](Exchange& exchange) {
              EXPECT_EQ(exchange.request().Argument("follow"), "true");
              EXPECT_EQ(exchange.request().Argument("sinceTime"), "2026-01-02T03:04:09Z");
              exchange.Answer(200, "2026-01-02T03:04:09Z y\n2026-01-02T03:04:10Z z\n");
            }});
  PodLogRequest request = {
      .pod = {"default", "r"},
      .container = "main",
      .tail_lines = 2,
      .since = absl::FromCivil(absl::CivilSecond(2026, 1, 2, 3, 4, 5), absl::UTCTimeZone()),
      .pattern = "loss"};
  EXPECT_EQ(ReadAll(logs_->Start(request, Notify()).get()), "loss 2|loss 3|");
  request.follow = true;
  // What follows is not looked through: whoever reads does that.
  EXPECT_EQ(ReadAll(logs_->Start(request, Notify()).get()), "loss 2|loss 3|z|");
}

TEST_F(PodLogsTest, ALogThatIsNotFollowedAndCutIsAnError) {
  ServeLog({CutAfter("2026-01-02T03:04:05Z a\n")});
  const auto reader = Start(false);
  EXPECT_EQ(ReadAll(reader.get()), "a|");
  EXPECT_EQ(reader->status().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(PodLogsTest, APodThatIsGoneHasNoLog) {
  Serve([](Exchange& exchange) {
    exchange.Answer(
        404, R"({"kind": "Status", "code": 404, "reason": "NotFound", "message": "pods \"r\" not found"})");
  });
  logs_ = std::make_unique<PodLogs>(client_.get(), options_of_logs_);
  for (const bool follow : {true, false}) {
    const auto reader = Start(follow);
    EXPECT_EQ(ReadAll(reader.get()), "");
    EXPECT_EQ(reader->status().error_code(), grpc::StatusCode::NOT_FOUND);
  }
}

TEST_F(PodLogsTest, WhatWasKeptGoesOnForAPodThatGoes) {
  char path[] = "/tmp/adaptdl-kept-XXXXXX";
  close(mkstemp(path));
  std::ofstream(path) << "2026-01-02T03:04:05Z a\n2026-01-02T03:04:06Z b\n";
  for (const bool had_some : {true, false}) {
    Serve([had_some](Exchange& exchange) {
      if (!had_some) return exchange.Answer(404, R"({"kind": "Status", "code": 404, "reason": "NotFound"})");
      exchange.Begin(200);
      exchange.Part("2026-01-02T03:04:05Z a\n");
      exchange.Cut();
    });
    logs_ = std::make_unique<PodLogs>(client_.get(), options_of_logs_);
    const auto reader = logs_->Start({.pod = {"default", "r"}, .container = "main"}, Notify(), [&path] {
      KeptLogFile file;
      file.text.open(path);
      file.error = "no more";
      return file;
    });
    EXPECT_EQ(ReadAll(reader.get()), "a|b|");
    EXPECT_EQ(reader->status().error_message(), "its end could not be kept: no more");
  }
  std::remove(path);
}

TEST_F(PodLogsTest, OneMessageIsReadAhead) {
  ServeLog({[](Exchange& exchange) {
    exchange.Begin(200);
    // More than all buffers on the way hold: who sends it has to wait.
    const std::string part = "2026-01-02T03:04:05Z " + std::string(10'000, 'x') + "\n";
    bool is_there = true;
    for (int i = 0; i < 100'000 && is_there; ++i) is_there = exchange.Part(part);
    EXPECT_FALSE(is_there);
  }});
  const auto reader = Start(true);
  EXPECT_EQ(Await(*reader), State::kReady);
  // It can be taken however late, and nobody need take all.
  EXPECT_GT(reader->Take().lines_size(), 0);
  reader->Abandon();
}

TEST_F(PodLogsTest, AReaderThatIsAbandonedIsNotNotified) {
  ServeLog({[](Exchange& exchange) {
    exchange.Begin(200);
    exchange.AwaitClosed();
  }});
  const auto reader = Start(true);
  reader->Abandon();
  logs_.reset();
  EXPECT_EQ(reader->state(), State::kDone);
  MutexLock lock(&mutex_);
  EXPECT_EQ(notified_, 0);
}

TEST_F(PodLogsTest, ReadersAreLimited) {
  options_of_logs_.max_readers = 1;
  ServeLog({[](Exchange& exchange) {
              exchange.Begin(200);
              exchange.Part("2026-01-02T03:04:05Z a\n");
              exchange.AwaitClosed();
            },
            Whole("")});
  const auto first = Start(true);
  EXPECT_EQ(Await(*first), State::kReady);
  const auto second = Start(false);
  EXPECT_EQ(Await(*second), State::kDone);
  EXPECT_EQ(second->status().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

}  // namespace
}  // namespace adaptdl::supervisor
