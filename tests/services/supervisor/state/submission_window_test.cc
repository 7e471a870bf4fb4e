#include "services/supervisor/state/submission_window.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace adaptdl::supervisor {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1000);

TEST(SubmissionWindowTest, WaitsForTheOldestOfSoMany) {
  SubmissionWindow window;
  EXPECT_EQ(window.Wait("a", 2, kStart), absl::ZeroDuration());
  window.Note("a", kStart);
  window.Note("a", kStart + absl::Seconds(10));
  EXPECT_EQ(window.Wait("a", 2, kStart + absl::Seconds(20)), absl::Seconds(40));
  EXPECT_EQ(window.Wait("a", 3, kStart + absl::Seconds(20)), absl::ZeroDuration());
  EXPECT_EQ(window.Wait("b", 2, kStart + absl::Seconds(20)), absl::ZeroDuration());
  EXPECT_EQ(window.Wait("a", 2, kStart + absl::Minutes(1)), absl::ZeroDuration());
}

TEST(SubmissionWindowTest, NoBoundIsNoWait) {
  SubmissionWindow window;
  for (int i = 0; i < 100; ++i) window.Note("a", kStart);
  EXPECT_EQ(window.Wait("a", 0, kStart), absl::ZeroDuration());
}

TEST(SubmissionWindowTest, ForgetsNamespacesThatAreQuiet) {
  SubmissionWindow window;
  for (const char* name : {"a", "b", "c"}) window.Note(name, kStart);
  EXPECT_EQ(window.size(), 3u);
  window.Note("d", kStart + absl::Minutes(2));
  EXPECT_EQ(window.size(), 1u);
}

TEST(SubmissionWindowTest, KnowsThoseOfBeforeARestart) {
  SubmissionWindow window;
  window.Restore("a", kStart - absl::Minutes(2), kStart);
  EXPECT_EQ(window.size(), 0u);
  // A wall clock that was set back may put one into the future.
  window.Restore("a", kStart + absl::Hours(1), kStart);
  EXPECT_EQ(window.Wait("a", 1, kStart), absl::Minutes(1));
}

TEST(SubmissionWindowTest, NeverMoreThanSoManyInAnyMinute) {
  SubmissionWindow window;
  std::vector<absl::Time> taken;
  absl::Time now = absl::FromUnixSeconds(1000);
  for (int i = 0; i < 5000; ++i) {
    now += absl::Milliseconds((i * 7919) % 9000);
    const absl::Duration wait = window.Wait("a", 10, now);
    int recent = 0;
    for (const absl::Time time : taken) recent += time + absl::Minutes(1) > now;
    ASSERT_EQ(wait == absl::ZeroDuration(), recent < 10);
    if (wait > absl::ZeroDuration()) {
      SubmissionWindow later = window;
      EXPECT_EQ(later.Wait("a", 10, now + wait), absl::ZeroDuration());
      continue;
    }
    window.Note("a", now);
    taken.push_back(now);
    EXPECT_EQ(window.Wait("b", 1, now), absl::ZeroDuration());
  }
}

TEST(SubmissionWindowTest, ALowerBoundCountsWhatWasThereBefore) {
  SubmissionWindow window;
  const absl::Time start = absl::FromUnixSeconds(1000);
  for (int i = 0; i < 10; ++i) window.Note("a", start + absl::Seconds(i));
  // Nine of the ten have to leave the window before another one is the second.
  EXPECT_EQ(window.Wait("a", 2, start + absl::Seconds(9)), absl::Seconds(59));
  EXPECT_EQ(window.Wait("a", 0, start + absl::Seconds(9)), absl::ZeroDuration());
  window.Note("b", start + absl::Seconds(69));
  EXPECT_EQ(window.size(), 1u);
  EXPECT_EQ(window.Wait("a", 1, start + absl::Seconds(69)), absl::ZeroDuration());
}

}  // namespace
}  // namespace adaptdl::supervisor
