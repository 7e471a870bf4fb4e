#include "libs/jobs/node_health.h"

#include <csignal>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace adaptdl::jobs {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1'000'000);

Replica Exited(int code, int signal = 0) {
  Replica replica;
  replica.state = ReplicaState::kExited;
  replica.exit_code = code;
  replica.signal = signal;
  return replica;
}

Replica Lost(LossCause cause) {
  Replica replica;
  replica.state = ReplicaState::kLost;
  replica.loss = cause;
  return replica;
}

TEST(NodeHealthTest, OnlyTheCauseOfAFailureIsASign) {
  EXPECT_EQ(SignOf(Exited(0)), Sign::kGood);
  EXPECT_EQ(SignOf(Exited(1)), Sign::kBad);
  EXPECT_EQ(SignOf(Exited(0, SIGKILL)), Sign::kBad);
  EXPECT_EQ(SignOf(Lost(LossCause::kNotStarted)), Sign::kBad);
  EXPECT_EQ(SignOf(Lost(LossCause::kVanished)), Sign::kBad);
  // Followed another one, or its node's lease has ended.
  EXPECT_EQ(SignOf(Exited(75)), Sign::kNone);
  EXPECT_EQ(SignOf(Exited(143)), Sign::kNone);
  EXPECT_EQ(SignOf(Lost(LossCause::kNode)), Sign::kNone);
  EXPECT_EQ(SignOf(Replica()), Sign::kNone);
  Replica stopped = Exited(1);
  stopped.stop_requested = true;
  EXPECT_EQ(SignOf(stopped), Sign::kNone);
}

TEST(NodeHealthTest, ASingleJobCountsOnceHoweverOftenItFails) {
  NodeHealth health;
  const QuarantinePolicy policy;
  for (int i = 0; i < 100; ++i) health.Failed("a", kStart + absl::Seconds(i));
  EXPECT_EQ(health.FailedJobs(kStart + absl::Seconds(100), policy).size(), 1u);
  EXPECT_TRUE(health.HasFailed("a", kStart + absl::Seconds(100), policy));
  EXPECT_FALSE(health.HasFailed("b", kStart, policy));
}

TEST(NodeHealthTest, FailuresAreForgottenAfterTheWindowAndASuccess) {
  NodeHealth health;
  const QuarantinePolicy policy;
  health.Failed("a", kStart);
  health.Failed("b", kStart + absl::Minutes(6));
  EXPECT_EQ(health.FailedJobs(kStart + absl::Minutes(9), policy).size(), 2u);
  EXPECT_FALSE(health.HasFailed("a", kStart + absl::Minutes(11), policy));
  EXPECT_EQ(health.FailedJobs(kStart + absl::Minutes(11), policy).size(), 1u);
  health.Succeeded();
  EXPECT_TRUE(health.FailedJobs(kStart + absl::Minutes(11), policy).empty());
}

TEST(NodeHealthTest, QuarantinesDoubleUpToABoundUntilASuccess) {
  NodeHealth health;
  const QuarantinePolicy policy{.first = absl::Minutes(5), .longest = absl::Minutes(15)};
  health.Failed("a", kStart);
  EXPECT_EQ(health.Quarantine(policy), absl::Minutes(5));
  EXPECT_TRUE(health.FailedJobs(kStart, policy).empty()) << "what led to it does not count again";
  EXPECT_EQ(health.Quarantine(policy), absl::Minutes(10));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(health.Quarantine(policy), absl::Minutes(15));
  health.Succeeded();
  EXPECT_EQ(health.Quarantine(policy), absl::Minutes(5));
}

// Against a list of all failures, counted anew each time.
TEST(NodeHealthTest, CountsAsOneWouldByHand) {
  std::mt19937 random(7);
  const QuarantinePolicy policy;
  NodeHealth health;
  std::vector<std::pair<absl::Time, std::string>> all;
  absl::Time now = kStart;
  for (int i = 0; i < 5000; ++i) {
    now += absl::Seconds(static_cast<int>(random() % 120));
    const std::string job = absl::StrCat("job-", random() % 8);
    if (random() % 20 == 0) {
      health.Succeeded();
      all.clear();
    } else {
      health.Failed(job, now);
      all.emplace_back(now, job);
    }
    std::set<std::string> expected;
    for (const auto& [time, failed] : all) {
      if (time + policy.window >= now) expected.insert(failed);
    }
    const std::vector<std::string> counted = health.FailedJobs(now, policy);
    ASSERT_EQ(std::set<std::string>(counted.begin(), counted.end()), expected);
  }
}

}  // namespace
}  // namespace adaptdl::jobs
