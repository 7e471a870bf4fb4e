#include "libs/base/backoff.h"

#include "gtest/gtest.h"

namespace adaptdl {
namespace {

TEST(Backoff, DoublesUpToTheLongestPause) {
  Backoff backoff(absl::Seconds(1), absl::Seconds(5));
  for (const int seconds : {1, 2, 4, 5, 5}) EXPECT_EQ(backoff.Next(), absl::Seconds(seconds));
  backoff.Reset();
  EXPECT_EQ(backoff.Next(), absl::Seconds(1));
}

TEST(Backoff, NoPauseIsLongerThanTheLongest) {
  Backoff backoff(absl::Seconds(10), absl::Seconds(5));
  EXPECT_EQ(backoff.Next(), absl::Seconds(5));
  EXPECT_EQ(BackoffAfter(1, absl::Seconds(10), absl::Seconds(5)), absl::Seconds(5));
}

TEST(Backoff, IsKnownFromTheNumberOfFailures) {
  Backoff backoff(absl::Seconds(1), absl::Minutes(1));
  for (int failures = 1; failures < 100; ++failures) {
    EXPECT_EQ(BackoffAfter(failures, absl::Seconds(1), absl::Minutes(1)), backoff.Next()) << failures;
  }
  EXPECT_EQ(BackoffAfter(0, absl::Seconds(1), absl::Minutes(1)), absl::Seconds(1));
}

}  // namespace
}  // namespace adaptdl
