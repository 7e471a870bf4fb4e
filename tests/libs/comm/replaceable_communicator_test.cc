#include "libs/comm/replaceable_communicator.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/comm/in_process_communicator.h"

namespace adaptdl::comm {
namespace {

using ::testing::ElementsAre;

std::unique_ptr<Communicator> OfOne() { return std::move(CreateInProcessGroup(1).front()); }

TEST(ReplaceableCommunicator, ForwardsToThePresentOne) {
  ReplaceableCommunicator communicator(OfOne());
  EXPECT_EQ(communicator.size(), 1);
  std::vector<double> values = {2.0};
  EXPECT_TRUE(communicator.AllReduce(BufferOf(absl::MakeSpan(values))).ok());
  EXPECT_THAT(values, ElementsAre(2.0));

  auto next = CreateInProcessGroup(2);
  communicator.Replace(std::move(next[1]));
  EXPECT_EQ(communicator.rank(), 1);
  EXPECT_EQ(communicator.size(), 2);
  std::vector<double> others = {3.0};
  const auto theirs = next[0]->AllReduceAsync(BufferOf(absl::MakeSpan(others)));
  const auto work = communicator.AllReduceAsync(BufferOf(absl::MakeSpan(values)));
  EXPECT_TRUE(work->Wait().ok());
  EXPECT_THAT(values, ElementsAre(5.0));
  // What is asked for is checked against the present group.
  EXPECT_EQ(communicator.Broadcast(BufferOf(absl::MakeSpan(values)), 2).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ReplaceableCommunicator, TheOneBeforeHasLeftItsGroup) {
  auto before = CreateInProcessGroup(2);
  ReplaceableCommunicator communicator(std::move(before[0]));
  communicator.Replace(OfOne());
  EXPECT_EQ(before[1]->Barrier().code(), absl::StatusCode::kUnavailable);
}

TEST(ReplaceableCommunicator, AnAbortDoesNotReachTheNextOne) {
  ReplaceableCommunicator communicator(OfOne());
  communicator.Abort("enough");
  EXPECT_EQ(communicator.Barrier().code(), absl::StatusCode::kAborted);
  communicator.Replace(OfOne());
  EXPECT_TRUE(communicator.Barrier().ok());
  communicator.Abort("enough");
  EXPECT_EQ(communicator.Barrier().code(), absl::StatusCode::kAborted);
}

TEST(ReplaceableCommunicator, ATimeoutIsThePresentOnes) {
  auto members = CreateInProcessGroup(2, absl::Hours(1));
  ReplaceableCommunicator communicator(std::move(members[0]));
  communicator.SetTimeout(absl::Milliseconds(1));
  EXPECT_EQ(communicator.Barrier().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(ReplaceableCommunicator, MayBeAbortedWhileItIsReplaced) {
  ReplaceableCommunicator communicator(OfOne());
  std::atomic<bool> done = false;
  std::thread other([&] {
    while (!done) {
      communicator.Abort("enough");
      EXPECT_EQ(communicator.rank(), 0);
    }
  });
  for (int i = 0; i < 1000; ++i) {
    communicator.Replace(OfOne());
    const absl::Status status = communicator.Barrier();
    EXPECT_TRUE(status.ok() || absl::IsAborted(status)) << status;
  }
  done = true;
  other.join();
}

}  // namespace
}  // namespace adaptdl::comm
