// Buffers on a device that the host cannot touch, over threads of one process.

#include "libs/comm/staged_communicator.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/comm/in_process_communicator.h"
#include "libs/device/cpu_device.h"
#include "libs/device/guarded_device.h"
#include "tests/libs/device/device_memory.h"

namespace adaptdl::comm {
namespace {

using device::DeviceNumbers;
using device::GuardedDevice;
using ::testing::Each;
using ::testing::ElementsAre;

struct Member {
  GuardedDevice device;
  std::unique_ptr<StagedCommunicator> communicator;

  Buffer BufferOver(const DeviceNumbers& numbers, int64_t count, device::Stream stream = nullptr) {
    return {numbers.data(), count, numbers.type(), &device, stream};
  }
};

class StagedCommunicatorTest : public testing::Test {
 protected:
  StagedCommunicatorTest() {
    auto inner = CreateInProcessGroup(2, absl::Seconds(30));
    for (size_t rank = 0; rank < 2; ++rank) {
      members_[rank].communicator =
          std::make_unique<StagedCommunicator>(std::move(inner[rank]), &members_[rank].device);
    }
  }

  void OnBoth(const std::function<void(Member& member, int rank)>& body) {
    std::thread other([&] { body(members_[1], 1); });
    body(members_[0], 0);
    other.join();
  }

  Member members_[2];
};

TEST_F(StagedCommunicatorTest, SumsAndBroadcastsOfAllTypes) {
  OnBoth([](Member& member, int rank) {
    for (const DataType type :
         {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16, DataType::kBFloat16}) {
      DeviceNumbers numbers(member.device, {1.0 + rank, 2, 3}, type);
      ASSERT_TRUE(member.communicator->AllReduce(member.BufferOver(numbers, 3)).ok());
      EXPECT_THAT(numbers.Get(), ElementsAre(3, 4, 6));
      numbers.Set({1.0 + rank, 2.0 - rank, 3});
      ASSERT_TRUE(member.communicator->AllReduce(member.BufferOver(numbers, 3), ReduceOp::kMax).ok());
      EXPECT_THAT(numbers.Get(), ElementsAre(2, 2, 3));
      numbers.Set({5.0 + rank, 6, 7});
      ASSERT_TRUE(member.communicator->Broadcast(member.BufferOver(numbers, 3), 1).ok());
      EXPECT_THAT(numbers.Get(), ElementsAre(6, 6, 7));
    }
  });
}

// What is under way stays in the order in which it was started, whichever memory it is of.
TEST_F(StagedCommunicatorTest, MemoryOfBothKindsIsExchangedInOrder) {
  OnBoth([](Member& member, int rank) {
    const DeviceNumbers first(member.device, {1});
    const DeviceNumbers second(member.device, {10.0 * rank});
    std::vector<double> between = {static_cast<double>(rank), 7};
    std::vector<std::string> gathered;
    const auto one = member.communicator->AllReduceAsync(member.BufferOver(first, 1));
    const auto two = member.communicator->AllReduceAsync(BufferOf(absl::MakeSpan(between)));
    const auto three = member.communicator->AllReduceAsync(member.BufferOver(second, 1));
    const auto four = member.communicator->AllGatherAsync(rank == 0 ? "a" : "b", &gathered);
    for (const auto* work : {&four, &three, &two, &one}) EXPECT_TRUE((*work)->Wait().ok());
    EXPECT_THAT(first.Get(), ElementsAre(2));
    EXPECT_THAT(between, ElementsAre(1, 14));
    EXPECT_THAT(second.Get(), ElementsAre(10));
    EXPECT_THAT(gathered, ElementsAre("a", "b"));
  });
}

// The result is read on a stream that was told to come after it, and the host waits for nothing of the device's.
TEST_F(StagedCommunicatorTest, AStreamComesAfterTheExchange) {
  OnBoth([](Member& member, int rank) {
    const auto filling = member.device.CreateStream().value();
    const auto reading = member.device.CreateStream().value();
    const DeviceNumbers source(member.device, {3.0 + rank, 4});
    const DeviceNumbers numbers(member.device, {0, 0});
    const DeviceNumbers copy(member.device, {0, 0});
    ASSERT_TRUE(member.device.Copy(numbers.data(), source.data(), 16, filling->get()).ok());
    const auto work = member.communicator->AllReduceAsync(member.BufferOver(numbers, 2, filling->get()));
    const int64_t waits = device::Device::WaitsOfThread();
    ASSERT_TRUE(work->Then(reading->get()).ok());
    ASSERT_TRUE(member.device.Copy(copy.data(), numbers.data(), 16, reading->get()).ok());
    EXPECT_EQ(device::Device::WaitsOfThread(), waits);
    device::Synchronize(member.device, reading->get());
    EXPECT_TRUE(work->Wait().ok());
    EXPECT_EQ(device::Device::WaitsOfThread(), waits + 1) << "it is done, as the stream is";
    EXPECT_THAT(copy.Get(), ElementsAre(7, 8));
  });
}

TEST_F(StagedCommunicatorTest, StagingMemoryIsUsedAgain) {
  OnBoth([](Member& member, int /*rank*/) {
    const DeviceNumbers large(member.device, std::vector<double>(1000, 1));
    const DeviceNumbers small(member.device, {1});
    for (int step = 0; step < 20; ++step) {
      const auto one = member.communicator->AllReduceAsync(member.BufferOver(large, 1000));
      const auto two = member.communicator->AllReduceAsync(member.BufferOver(small, 1));
      EXPECT_TRUE(one->Wait().ok());
      EXPECT_TRUE(two->Wait().ok());
    }
    EXPECT_LE(member.communicator->pieces(), 2);
    EXPECT_THAT(large.Get(), Each(1 << 20));
  });
}

TEST_F(StagedCommunicatorTest, ALostMemberEndsWhatIsUnderWay) {
  OnBoth([](Member& member, int rank) {
    if (rank == 1) {
      member.communicator->Abort("gone");
      return;
    }
    const DeviceNumbers numbers(member.device, {1});
    const auto one = member.communicator->AllReduceAsync(member.BufferOver(numbers, 1));
    const auto two = member.communicator->AllReduceAsync(member.BufferOver(numbers, 1));
    EXPECT_TRUE(absl::IsUnavailable(one->Then(nullptr)));
    EXPECT_TRUE(absl::IsUnavailable(one->Wait()));
    EXPECT_TRUE(absl::IsUnavailable(two->Wait()));
    EXPECT_TRUE(absl::IsUnavailable(member.communicator->Barrier()));
  });
}

TEST_F(StagedCommunicatorTest, TakesNoBufferOfAnotherDevice) {
  OnBoth([](Member& member, int /*rank*/) {
    double number = 1;
    Buffer buffer{&number, 1, DataType::kFloat64, &device::Cpu(), nullptr};
    EXPECT_TRUE(absl::IsInvalidArgument(member.communicator->AllReduce(buffer)));
    EXPECT_TRUE(member.communicator->Barrier().ok());
  });
}

// A group of one exchanges with nobody, and its buffers stay as they are.
TEST(StagedCommunicator, OfOneMember) {
  GuardedDevice device;
  StagedCommunicator communicator(std::move(CreateInProcessGroup(1).front()), &device);
  const DeviceNumbers numbers(device, {1, 2});
  EXPECT_TRUE(communicator.AllReduce({numbers.data(), 2, numbers.type(), &device, nullptr}).ok());
  EXPECT_THAT(numbers.Get(), ElementsAre(1, 2));
}

// What is not waited for has let go of its memory when it is gone.
TEST_F(StagedCommunicatorTest, WorksMayBeDroppedAndTheCommunicatorDestroyed) {
  OnBoth([](Member& member, int /*rank*/) {
    const DeviceNumbers numbers(member.device, {1});
    for (int i = 0; i < 5; ++i) (void)member.communicator->AllReduceAsync(member.BufferOver(numbers, 1));
    EXPECT_THAT(numbers.Get(), ElementsAre(32));
    member.communicator.reset();
  });
}

}  // namespace
}  // namespace adaptdl::comm
