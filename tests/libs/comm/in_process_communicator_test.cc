#include "libs/comm/in_process_communicator.h"

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace adaptdl::comm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Runs `body` once per member, each in a thread of its own.
void RunMembers(int size, const std::function<void(Communicator&)>& body) {
  auto members = CreateInProcessGroup(size, absl::Seconds(20));
  std::vector<std::thread> threads;
  for (auto& member : members) threads.emplace_back([&body, &member] { body(*member); });
  for (std::thread& thread : threads) thread.join();
}

TEST(InProcessCommunicator, SumsOverAllMembers) {
  RunMembers(3, [](Communicator& member) {
    std::vector<double> values = {1.0 * member.rank(), 10.0};
    ASSERT_TRUE(member.AllReduce(BufferOf(absl::MakeSpan(values))).ok());
    EXPECT_THAT(values, ElementsAre(3.0, 30.0));
  });
}

TEST(InProcessCommunicator, FinishesSeveralAsynchronousSumsInAnyOrder) {
  RunMembers(2, [](Communicator& member) {
    std::vector<float> first = {1};
    std::vector<int64_t> second = {2};
    auto work_1 = member.AllReduceAsync(BufferOf(absl::MakeSpan(first)));
    auto work_2 = member.AllReduceAsync(BufferOf(absl::MakeSpan(second)));
    ASSERT_TRUE(work_2->Wait().ok());
    ASSERT_TRUE(work_1->Wait().ok());
    EXPECT_EQ(first[0], 2);
    EXPECT_EQ(second[0], 4);
  });
}

TEST(InProcessCommunicator, GathersStringsOfDifferentLengthInOrderOfRank) {
  RunMembers(3, [](Communicator& member) {
    auto all = member.AllGather(std::string(member.rank(), 'x'));
    ASSERT_TRUE(all.ok());
    EXPECT_THAT(*all, ElementsAre("", "x", "xx"));
  });
}

TEST(InProcessCommunicator, BroadcastsAStringOfTheRoot) {
  RunMembers(2, [](Communicator& member) {
    std::string value = member.rank() == 1 ? "from one" : "a longer one that is replaced";
    ASSERT_TRUE(member.BroadcastString(&value, 1).ok());
    EXPECT_EQ(value, "from one");
  });
}

TEST(InProcessCommunicator, ReportsALostPeer) {
  auto members = CreateInProcessGroup(2, absl::Seconds(20));
  members[1].reset();
  EXPECT_EQ(members[0]->Barrier().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(members[0]->Barrier().code(), absl::StatusCode::kUnavailable);
}

TEST(InProcessCommunicator, AbortEndsAWaitingCollective) {
  auto members = CreateInProcessGroup(2, absl::Seconds(20));
  absl::Status status;
  std::thread waiting([&] { status = members[0]->Barrier(); });
  members[0]->Abort("enough");
  waiting.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(members[1]->Barrier().code(), absl::StatusCode::kUnavailable);
}

TEST(InProcessCommunicator, GivesUpOnAPeerThatDoesNotTakePart) {
  auto members = CreateInProcessGroup(2, absl::Milliseconds(1));
  EXPECT_EQ(members[0]->Barrier().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST(InProcessCommunicator, TakesMaximaAndOrs) {
  RunMembers(3, [](Communicator& member) {
    std::vector<float> maxima = {static_cast<float>(-member.rank()), static_cast<float>(member.rank())};
    std::vector<uint8_t> flags = {0, static_cast<uint8_t>(member.rank() == 1)};
    ASSERT_TRUE(member.AllReduce(BufferOf(absl::MakeSpan(maxima)), ReduceOp::kMax).ok());
    ASSERT_TRUE(member.AllReduce(BufferOf(absl::MakeSpan(flags)), ReduceOp::kOr).ok());
    EXPECT_THAT(maxima, ElementsAre(0.0f, 2.0f));
    EXPECT_THAT(flags, ElementsAre(0, 1));
  });
}

TEST(InProcessCommunicator, JoinsValuesByAnyFunctionInOrderOfRank) {
  RunMembers(3, [](Communicator& member) {
    auto longer = [](std::string left, const std::string& right) {
      return right.size() > left.size() ? right : left;
    };
    auto concatenate = [](std::string left, const std::string& right) { return left + right; };
    auto longest = member.ReduceAsync(std::string(member.rank() + 1, 'x'), longer);
    auto all = member.ReduceAsync(std::to_string(member.rank()), concatenate);
    EXPECT_EQ(*all->Wait(), "012");
    EXPECT_EQ(*longest->Wait(), "xxx");
  });
}

TEST(InProcessCommunicator, TheDeadlineNamesThoseThatHaveNotArrived) {
  auto members = CreateInProcessGroup(3, absl::Milliseconds(1));
  std::vector<double> values = {1};
  const absl::Status status = members[1]->AllReduce(BufferOf(absl::MakeSpan(values)));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("all-reduce (sum) of 8 bytes of float64, number 1"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0, rank 2 have not arrived"));
}

TEST(InProcessCommunicator, MembersOutOfStepLearnWhatEachHasBegun) {
  auto members = CreateInProcessGroup(2, absl::Seconds(20));
  std::vector<double> values = {1};
  auto sum = members[0]->AllReduceAsync(BufferOf(absl::MakeSpan(values)));
  auto broadcast = members[1]->BroadcastAsync(BufferOf(absl::MakeSpan(values)), 1);
  for (const absl::Status& status : {sum->Wait(), broadcast->Wait()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 broadcast from rank 1"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 0 all-reduce (sum)"));
  }
}

TEST(InProcessCommunicator, RefusesWhatCannotBeAndStillWorks) {
  RunMembers(2, [](Communicator& member) {
    std::vector<double> values = {1};
    const Buffer buffer = BufferOf(absl::MakeSpan(values));
    EXPECT_EQ(member.Broadcast(buffer, -1).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(member.AllReduce(buffer, ReduceOp::kOr).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(member.AllReduceAsync({nullptr, 1, DataType::kInt64})->Wait().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(member.Barrier().ok());
  });
}

TEST(InProcessCommunicator, ATimeoutHoldsForTheCollectivesThatFollow) {
  auto members = CreateInProcessGroup(2, absl::Hours(1));
  members[0]->SetTimeout(absl::Milliseconds(1));
  const absl::Status status = members[0]->Barrier();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("took longer than 1ms: rank 1 has not arrived"));
}

}  // namespace
}  // namespace adaptdl::comm
