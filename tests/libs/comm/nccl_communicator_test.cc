// NCCL in a group of one, on whatever GPU is there. Skipped, loudly, without one.

#include "libs/comm/nccl_communicator.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::comm {
namespace {

using ::testing::ElementsAre;

class NcclCommunicatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    rendezvous_ = *TcpRendezvous::Host("127.0.0.1");
    auto member = ConnectNccl(*rendezvous_, {}, {});
    if (member.status().code() == absl::StatusCode::kFailedPrecondition) {
      GTEST_SKIP() << "NOT TESTED, NCCL needs a GPU: " << member.status().message();
    }
    ASSERT_TRUE(member.ok()) << member.status();
    member_ = *std::move(member);
  }

  std::unique_ptr<TcpRendezvous> rendezvous_;
  std::unique_ptr<Communicator> member_;
};

TEST_F(NcclCommunicatorTest, RunsEveryCollective) {
  std::vector<float> floats = {1.5f, -2.0f};
  std::vector<int64_t> integers = {0, -3};
  ASSERT_TRUE(member_->AllReduce(BufferOf(absl::MakeSpan(floats))).ok());
  ASSERT_TRUE(member_->AllReduce(BufferOf(absl::MakeSpan(floats)), ReduceOp::kMax).ok());
  ASSERT_TRUE(member_->AllReduce(BufferOf(absl::MakeSpan(integers)), ReduceOp::kOr).ok());
  ASSERT_TRUE(member_->Broadcast(BufferOf(absl::MakeSpan(floats)), 0).ok());
  EXPECT_THAT(floats, ElementsAre(1.5f, -2.0f));
  EXPECT_EQ(integers[0], 0);
  EXPECT_NE(integers[1], 0);
  EXPECT_TRUE(member_->Barrier().ok());
  auto all = member_->AllGather("only me");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(*all, ElementsAre("only me"));
}

TEST_F(NcclCommunicatorTest, AbortEndsTheGroup) {
  member_->Abort("enough");
  EXPECT_EQ(member_->Barrier().code(), absl::StatusCode::kAborted);
}

TEST_F(NcclCommunicatorTest, RefusesWhatCannotBe) {
  std::vector<float> floats = {1};
  EXPECT_EQ(member_->Broadcast(BufferOf(absl::MakeSpan(floats)), 1).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(member_->Barrier().ok());
}

TEST(NcclConnect, SaysThatThereIsNoSuchGpu) {
  auto rendezvous = *TcpRendezvous::Host("127.0.0.1");
  EXPECT_EQ(ConnectNccl(*rendezvous, {}, {.cuda_device = 1000, .current_stream = nullptr}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace adaptdl::comm
