#include "libs/elastic/job/ending.h"

#include "absl/status/status.h"
#include "adaptdl/job.h"
#include "gtest/gtest.h"
#include "libs/elastic/control/fake_control_plane.h"
#include "tests/libs/elastic/test_host.h"

namespace adaptdl::elastic {
namespace {

class EndingTest : public testing::Test {
 protected:
  int CodeOf(const absl::Status& status) {
    return ExitCodeOf([&] { ending_.Check(status); });
  }

  TestHost host_;
  FakeControlPlane control_{{}};
  Ending ending_{&host_, &control_};
};

TEST_F(EndingTest, TheCodeSaysWhoseFaultItWas) {
  EXPECT_EQ(CodeOf(absl::OkStatus()), -1);
  EXPECT_EQ(CodeOf(absl::UnavailableError("")), kExitPeerLost);
  EXPECT_EQ(CodeOf(absl::DeadlineExceededError("")), kExitPeerLost);
  EXPECT_EQ(CodeOf(absl::OutOfRangeError("")), kExitPeerLost);
  EXPECT_EQ(CodeOf(absl::AbortedError("")), kExitPeerLost);
  EXPECT_EQ(CodeOf(absl::CancelledError("")), kExitStopped);
  EXPECT_EQ(CodeOf(absl::InternalError("")), 1);
  EXPECT_EQ(ExitCodeOf([&] { ending_.FailUsage("text"); }), 1);
}

TEST_F(EndingTest, AFencedReplicaEndsAtTheNextOccasionWhateverElseHappens) {
  ending_.ExitIfFenced();
  ending_.Fence();
  EXPECT_EQ(ExitCodeOf([&] { ending_.ExitIfFenced(); }), kExitPeerLost);
  EXPECT_EQ(CodeOf(absl::InternalError("")), kExitPeerLost);
}

TEST_F(EndingTest, FinishesItsWorkFirst) {
  int finished = 0;
  ending_.SetLastWork([&] { ++finished; });
  EXPECT_EQ(ExitCodeOf([&] { ending_.Exit(3); }), 3);
  EXPECT_EQ(finished, 1);
}

}  // namespace
}  // namespace adaptdl::elastic
