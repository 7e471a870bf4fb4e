// What is kept of pods that go, with a server in the place of the API server.

#include "services/supervisor/kubernetes/logs/log_keeper.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/libs/kube/client/api_fixture.h"

namespace adaptdl::supervisor {
namespace {

constexpr char kRuns[] = R"({"status": {"phase": "Running"}})";
constexpr char kEnded[] = R"({"status": {"phase": "Failed"}})";
constexpr char kLine[] = "2026-01-02T03:04:05.000000000Z a\n";

class LogKeeperTest : public kube::ApiTest {
 protected:
  LogKeeperTest() {
    char folder[] = "/tmp/adaptdl-keeper-XXXXXX";
    folder_ = mkdtemp(folder);
    kept_ = KeptLogs::Create(folder_).value();
  }
  ~LogKeeperTest() override {
    keeper_.reset();
    std::filesystem::remove_all(folder_);
  }

  // Answers calls for logs by `log`, and for pods that they are like this.
  void Start(TestServer::Handler log, const std::string& pod = kEnded, LogKeeperOptions options = {}) {
    Serve([log = std::move(log), pod](Exchange& exchange) {
      if (exchange.request().Path().ends_with("/log")) return log(exchange);
      exchange.Answer(200, pod);
    });
    LogKeeperParts parts;
    parts.client = client_.get();
    parts.clock = &clock_;
    parts.kept = kept_.get();
    parts.is_known = [](const Pod& pod) { return pod.job_uid == "job"; };
    parts.settled = [this](const std::string& replica) {
      MutexLock lock(&mutex_);
      settled_.insert(replica);
      changed_.SignalAll();
    };
    keeper_ = std::make_unique<LogKeeper>(parts, options);
  }
  static TestServer::Handler Whole(const std::string& text) {
    return [text](Exchange& exchange) { exchange.Answer(200, text); };
  }
  static PodValue MakePod(const std::string& name, bool is_being_deleted = false,
                          const std::string& job = "job") {
    auto pod = std::make_shared<Pod>();
    pod->key = {"default", name};
    pod->uid = "uid-of-" + name;
    pod->job_uid = job;
    pod->container = "main";
    pod->has_our_finalizer = true;
    pod->is_being_deleted = is_being_deleted;
    pod->phase = "Running";
    pod->report.mutable_replica()->set_replica_id(name);
    return pod;
  }
  void AwaitSettled(const std::string& replica) {
    MutexLock lock(&mutex_);
    while (settled_.count(replica) == 0) changed_.Wait(&mutex_);
  }
  // With what is said to be missing.
  std::string Kept(const std::string& replica) {
    auto file = kept_->Open("job", replica);
    if (!file.ok()) return std::string(absl::StatusCodeToString(file.status().code()));
    std::ostringstream text;
    text << file->text.rdbuf();
    return text.str() + file->error;
  }

  std::string folder_;
  std::unique_ptr<KeptLogs> kept_;
  Mutex mutex_;
  CondVar changed_;
  std::set<std::string> settled_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<LogKeeper> keeper_;
};

TEST_F(LogKeeperTest, APodThatHasEndedStaysUntilItsOutputIsKept) {
  Start([](Exchange& exchange) {
    EXPECT_EQ(exchange.request().Argument("follow"), "");
    EXPECT_EQ(exchange.request().Argument("container"), "main");
    EXPECT_EQ(exchange.request().Argument("tailLines"), "32769");
    exchange.Answer(200, kLine);
  });
  EXPECT_EQ(keeper_->Detain(MakePod("r")), absl::Seconds(10));
  AwaitSettled("r");
  EXPECT_EQ(Kept("r"), kLine);
  EXPECT_EQ(keeper_->Detain(MakePod("r")), absl::ZeroDuration());
}

TEST_F(LogKeeperTest, APodThatGoesIsFollowedToItsEnd) {
  Start(
      [](Exchange& exchange) {
        EXPECT_EQ(exchange.request().Argument("follow"), "true");
        exchange.Answer(200, kLine);
      },
      kEnded);
  keeper_->Observe(nullptr, MakePod("other"));
  keeper_->Observe(MakePod("r"), MakePod("r", true));
  AwaitSettled("r");
  EXPECT_EQ(Kept("r"), kLine);
  EXPECT_EQ(keeper_->Detain(MakePod("r", true)), absl::ZeroDuration());
  EXPECT_EQ(Kept("other"), "NOT_FOUND") << "it only runs";
}

TEST_F(LogKeeperTest, SoManyAreFollowedAtATime) {
  int open = 0;
  int most = 0;
  int begun = 0;
  Start(
      [&](Exchange& exchange) {
        {
          MutexLock lock(&mutex_);
          most = std::max(most, ++open);
          ++begun;
          changed_.SignalAll();
          // The first two wait for each other.
          while (begun < 2) changed_.Wait(&mutex_);
          --open;
        }
        exchange.Answer(200, kLine);
      },
      kEnded, {.followers = 2});
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) names.push_back(absl::StrCat("r-", i));
  for (const std::string& name : names) keeper_->Follow(MakePod(name));
  for (const std::string& name : names) AwaitSettled(name);
  for (const std::string& name : names) EXPECT_EQ(Kept(name), kLine);
  MutexLock lock(&mutex_);
  EXPECT_EQ(most, 2);
}

TEST_F(LogKeeperTest, WhoCouldNotBeFollowedIsReadAtTheEnd) {
  Start(
      [this](Exchange& exchange) {
        if (calls_++ > 0) return exchange.Answer(200, kLine);
        EXPECT_EQ(exchange.request().Argument("follow"), "true");
        EXPECT_GT(keeper_->Detain(MakePod("r", true)), absl::ZeroDuration());
        exchange.Answer(403, R"({"kind": "Status", "code": 403, "reason": "Forbidden"})");
      },
      kRuns);
  keeper_->Follow(MakePod("r"));
  AwaitSettled("r");
  EXPECT_EQ(calls_, 2);
  EXPECT_EQ(Kept("r"), kLine);
}

TEST_F(LogKeeperTest, ANodeThatDoesNotAnswerIsNotWaitedForLong) {
  Start([](Exchange& exchange) {
    exchange.Begin(200);
    exchange.Part(kLine);
    exchange.AwaitClosed();
  });
  EXPECT_EQ(keeper_->Detain(MakePod("r")), absl::Seconds(10));
  clock_.Advance(absl::Seconds(4));
  EXPECT_EQ(keeper_->Detain(MakePod("r")), absl::Seconds(6));
  clock_.Advance(absl::Seconds(6));
  EXPECT_EQ(keeper_->Detain(MakePod("r")), absl::ZeroDuration());
  AwaitSettled("r");
  EXPECT_NE(Kept("r").find("had not sent all of it"), std::string::npos) << Kept("r");
}

TEST_F(LogKeeperTest, NeitherAreThoseThatNobodyComesTo) {
  Start(
      [](Exchange& exchange) {
        exchange.Begin(200);
        exchange.AwaitClosed();
      },
      kEnded, {.readers = 1});
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(keeper_->Detain(MakePod(name)), absl::Seconds(10));
  clock_.Advance(absl::Seconds(10));
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(keeper_->Detain(MakePod(name)), absl::ZeroDuration());
  for (const char* name : {"a", "b", "c"}) {
    AwaitSettled(name);
    EXPECT_NE(Kept(name).find("had not sent all of it"), std::string::npos) << Kept(name);
  }
}

TEST_F(LogKeeperTest, TheLastOfALongLogIsKept) {
  Start(Whole(std::string("2026-01-02T03:04:04Z b\n") + kLine), kEnded, {.keep_bytes = sizeof(kLine)});
  keeper_->Detain(MakePod("r"));
  AwaitSettled("r");
  EXPECT_EQ(Kept("r"), kLine);
  EXPECT_TRUE(kept_->Open("job", "r")->beginning_is_missing);
}

TEST_F(LogKeeperTest, NothingIsKeptOfWhatNeverRanAndOfStrangers) {
  Start([](Exchange& exchange) {
    EXPECT_EQ(exchange.request().Path(), "/api/v1/namespaces/default/pods/r/log");
    exchange.Answer(
        400, R"({"kind": "Status", "code": 400, "reason": "BadRequest", "message": "waiting to start"})");
  });
  keeper_->Detain(MakePod("r"));
  keeper_->Detain(MakePod("stranger", false, "unknown"));
  AwaitSettled("r");
  AwaitSettled("stranger");
  EXPECT_EQ(Kept("r"), "NOT_FOUND");
  EXPECT_EQ(kept_->bytes(), 0);
}

TEST_F(LogKeeperTest, SweepsWhatJobsHaveLeft) {
  Start(Whole(kLine));
  keeper_->Detain(MakePod("r"));
  AwaitSettled("r");
  keeper_->Sweep([this](const std::string& /*uid*/) {
    MutexLock lock(&mutex_);
    settled_.insert("sweep");
    changed_.SignalAll();
    return false;
  });
  AwaitSettled("sweep");
  keeper_.reset();  // with what it was about
  EXPECT_EQ(Kept("r"), "NOT_FOUND");
}

TEST_F(LogKeeperTest, OnceStoppedItLeavesAllToTheNext) {
  Start([](Exchange& exchange) {
    exchange.Begin(200);
    exchange.AwaitClosed();
  });
  keeper_->Follow(MakePod("r"));
  keeper_->Stop();
  EXPECT_GT(keeper_->Detain(MakePod("r")), absl::ZeroDuration());
  EXPECT_EQ(Kept("r"), "NOT_FOUND");
}

TEST_F(LogKeeperTest, WhoIsGoneIsReadNoMore) {
  Start([](Exchange& exchange) {
    exchange.Begin(200);
    exchange.Part(kLine);
    exchange.AwaitClosed();
  });
  keeper_->Follow(MakePod("r"));
  keeper_->Observe(MakePod("r"), nullptr);
  AwaitSettled("r");
  EXPECT_NE(Kept("r").find("had not sent all of it"), std::string::npos) << Kept("r");
}

}  // namespace
}  // namespace adaptdl::supervisor
