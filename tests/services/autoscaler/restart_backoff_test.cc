#include "services/autoscaler/restart_backoff.h"

#include <string>

#include "gtest/gtest.h"
#include "libs/base/manual_clock.h"

namespace adaptdl::autoscaler {
namespace {

class RestartBackoffTest : public ::testing::Test {
 protected:
  // How long a node that dies now has to wait.
  absl::Duration Delay(const std::string& node) {
    return backoff_.NextStart(node, clock_.Now()) - clock_.Now();
  }

  ManualClock clock_;
  RestartBackoff backoff_{
      {.stable = absl::Seconds(10), .first_delay = absl::Seconds(1), .max_delay = absl::Seconds(5)}};
};

TEST_F(RestartBackoffTest, ANodeOfAnEarlierLifeStartsAtOnce) { EXPECT_EQ(Delay("n"), absl::ZeroDuration()); }

TEST_F(RestartBackoffTest, ANodeThatLivedStartsAtOnce) {
  backoff_.Started("n", clock_.Now());
  clock_.Advance(absl::Seconds(10));
  EXPECT_EQ(Delay("n"), absl::ZeroDuration());
}

TEST_F(RestartBackoffTest, OneThatDiesAtOnceWaitsLongerEachTime) {
  for (const int seconds : {1, 2, 4, 5, 5}) {
    backoff_.Started("n", clock_.Now());
    EXPECT_EQ(Delay("n"), absl::Seconds(seconds));
    clock_.Advance(absl::Seconds(seconds));
    EXPECT_EQ(Delay("n"), absl::ZeroDuration());
  }
  EXPECT_EQ(backoff_.Failures("n"), 5);
}

TEST_F(RestartBackoffTest, TheDelayRunsFromTheDeath) {
  backoff_.Started("n", clock_.Now());
  EXPECT_EQ(Delay("n"), absl::Seconds(1));
  clock_.Advance(absl::Milliseconds(400));
  EXPECT_EQ(Delay("n"), absl::Milliseconds(600));
}

TEST_F(RestartBackoffTest, ALongLifeForgives) {
  backoff_.Started("n", clock_.Now());
  Delay("n");
  backoff_.Started("n", clock_.Now());
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(Delay("n"), absl::ZeroDuration());
  backoff_.Started("n", clock_.Now());
  EXPECT_EQ(Delay("n"), absl::Seconds(1));
}

TEST_F(RestartBackoffTest, NodesDoNotShareTheirFailures) {
  backoff_.Started("a", clock_.Now());
  EXPECT_EQ(Delay("a"), absl::Seconds(1));
  EXPECT_EQ(backoff_.Failures("b"), 0);
  EXPECT_EQ(Delay("b"), absl::ZeroDuration());
}

TEST_F(RestartBackoffTest, ForgetsNodesThatAreGone) {
  backoff_.Started("a", clock_.Now());
  Delay("a");
  backoff_.KeepOnly({"b"});
  EXPECT_EQ(backoff_.Failures("a"), 0);
}

}  // namespace
}  // namespace adaptdl::autoscaler
