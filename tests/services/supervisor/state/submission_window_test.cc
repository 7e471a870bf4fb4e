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

}  // namespace
}  // namespace adaptdl::supervisor
