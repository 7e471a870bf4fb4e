#include "libs/comm/staged_communicator.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/comm/in_process_communicator.h"
#include "libs/device/data_type.h"
#include "libs/device/guarded_device.h"
#include "tests/libs/comm/member_processes.h"
#include "tests/libs/comm/watched_device.h"
#include "tests/libs/device/device_memory.h"

namespace adaptdl::comm {
namespace {

using device::Device;
using device::DeviceNumbers;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Buffer On(Device& device, const DeviceNumbers& numbers, int64_t count, device::Stream stream = nullptr) {
  return {numbers.data(), count, numbers.type(), &device, stream};
}

std::unique_ptr<Communicator> Staged(std::unique_ptr<Communicator> inner, Device* device) {
  auto staged = CreateStagedCommunicator(std::move(inner), device);
  EXPECT_TRUE(staged.ok()) << staged.status();
  return *std::move(staged);
}

// Tells before each collective that is waited for at once.
class HeardCommunicator final : public Communicator {
 public:
  HeardCommunicator(std::unique_ptr<Communicator> inner, std::function<void()> heard)
      : inner_(std::move(inner)), heard_(std::move(heard)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void Abort(absl::string_view reason) override { inner_->Abort(reason); }
  void SetTimeout(absl::Duration timeout) override { inner_->SetTimeout(timeout); }

 private:
  std::unique_ptr<Work> Start(Collective collective) override {
    return StartOn(*inner_, std::move(collective));
  }
  absl::Status Run(Collective collective) override {
    heard_();
    return RunOn(*inner_, std::move(collective));
  }

  const std::unique_ptr<Communicator> inner_;
  const std::function<void()> heard_;
};

// A member and its device.
struct Member {
  WatchedDevice device;
  std::unique_ptr<Communicator> communicator;
};

// In-process members, each with a device of its own.
class Group {
 public:
  explicit Group(int size, absl::Duration timeout = absl::Seconds(20)) {
    for (auto& inner : CreateInProcessGroup(size, timeout)) {
      members_.push_back(std::make_unique<Member>());
      members_.back()->communicator = Staged(std::move(inner), &members_.back()->device);
    }
  }

  Member& operator[](int rank) { return *members_[rank]; }

  // Once per member, each in a thread of its own.
  void Run(const std::function<void(Communicator&, WatchedDevice&)>& body) {
    std::vector<std::thread> threads;
    for (auto& member : members_) {
      threads.emplace_back([&body, &member] { body(*member->communicator, member->device); });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::vector<std::unique_ptr<Member>> members_;
};

TEST(StagedCommunicator, SumsBuffersOfEveryFloatingType) {
  for (const DataType type :
       {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16, DataType::kBFloat16}) {
    Group(3).Run([type](Communicator& member, WatchedDevice& device) {
      const DeviceNumbers numbers(device, {1.0 * member.rank(), 10.5}, type);
      ASSERT_TRUE(member.AllReduce(On(device, numbers, 2)).ok());
      EXPECT_THAT(numbers.Get(), ElementsAre(3, 31.5));
      ASSERT_TRUE(member.AllReduce(On(device, numbers, 1), ReduceOp::kMax).ok());
      EXPECT_THAT(numbers.Get(), ElementsAre(3, 31.5));
    });
  }
}

TEST(StagedCommunicator, BroadcastsFromAnyMember) {
  Group(3).Run([](Communicator& member, WatchedDevice& device) {
    const DeviceNumbers numbers(device, {1.0 * member.rank(), 7});
    const int before = device.copies();
    ASSERT_TRUE(member.Broadcast(On(device, numbers, 1), 2).ok());
    EXPECT_EQ(device.copies(), before + 1);
    EXPECT_THAT(numbers.Get(), ElementsAre(2, 7));
  });
}

TEST(StagedCommunicator, TakesEmptyBuffers) {
  Group(2).Run([](Communicator& member, WatchedDevice& device) {
    EXPECT_TRUE(member.AllReduce({nullptr, 0, DataType::kFloat32, &device}).ok());
    EXPECT_EQ(device.host_allocations(), 0);
  });
}

TEST(StagedCommunicator, ComesAfterWhatIsOnTheBuffersStream) {
  Group(2).Run([](Communicator& member, WatchedDevice& device) {
    const auto stream = device.CreateStream().value();
    const DeviceNumbers source(device, {1.0 + member.rank()});
    const DeviceNumbers numbers(device, {100});
    device.Pause();
    ASSERT_TRUE(device.Copy(numbers.data(), source.data(), 8, stream->get()).ok());
    auto work = member.AllReduceAsync(On(device, numbers, 1, stream->get()));
    device.Resume();
    ASSERT_TRUE(work->Wait().ok());
    EXPECT_THAT(numbers.Get(), ElementsAre(3));
  });
}

TEST(StagedCommunicator, ThenOrdersAStreamAndIsNoWaitForTheDevice) {
  Group(2).Run([](Communicator& member, WatchedDevice& device) {
    const auto stream = device.CreateStream().value();
    const DeviceNumbers numbers(device, {1});
    const DeviceNumbers seen(device, {0});
    auto work = member.AllReduceAsync(On(device, numbers, 1));
    const int64_t waits = Device::WaitsOfThread();
    ASSERT_TRUE(work->Then(stream->get()).ok());
    EXPECT_EQ(Device::WaitsOfThread(), waits);
    ASSERT_TRUE(device.Copy(seen.data(), numbers.data(), 8, stream->get()).ok());
    device::Synchronize(device, stream->get());
    EXPECT_THAT(seen.Get(), ElementsAre(2));
    // The stream is known to have come so far.
    const int64_t before = Device::WaitsOfThread();
    ASSERT_TRUE(work->Wait().ok());
    EXPECT_EQ(Device::WaitsOfThread(), before);
  });
}

TEST(StagedCommunicator, ThenDoesNotWaitForTheCopyBack) {
  WatchedDevice device;
  WatchedDevice other_device;
  auto members = CreateInProcessGroup(2, absl::Seconds(20));
  // The device stands still from before the copy back on.
  auto member =
      Staged(std::make_unique<HeardCommunicator>(std::move(members[0]), [&] { device.Pause(); }), &device);
  auto other = Staged(std::move(members[1]), &other_device);
  const DeviceNumbers numbers(device, {1});
  const DeviceNumbers others(other_device, {2});
  auto work = member->AllReduceAsync(On(device, numbers, 1));
  ASSERT_TRUE(other->AllReduce(On(other_device, others, 1)).ok());
  EXPECT_TRUE(work->Then(nullptr).ok());
  device.Resume();
  EXPECT_TRUE(work->Wait().ok());
  EXPECT_THAT(numbers.Get(), ElementsAre(3));
}

// Handing over to another thread costs as much as a small exchange.
TEST(StagedCommunicator, MainMemoryIsExchangedInTheCallersThreadWhenNothingIsBeforeIt) {
  WatchedDevice device;
  std::vector<std::thread::id> threads;
  auto members = CreateInProcessGroup(1, absl::Seconds(20));
  auto member = Staged(std::make_unique<HeardCommunicator>(
                           std::move(members[0]), [&] { threads.push_back(std::this_thread::get_id()); }),
                       &device);
  EXPECT_TRUE(member->Barrier().ok());
  EXPECT_THAT(threads, ElementsAre(std::this_thread::get_id()));
}

// One member's device is far behind. What it does in main memory meanwhile must not overtake.
TEST(StagedCommunicator, KeepsTheOrderOfMainMemoryAndDevice) {
  Group(2).Run([](Communicator& member, WatchedDevice& device) {
    const DeviceNumbers numbers(device, {1.0 + member.rank()});
    std::vector<double> host = {10.0 * member.rank()};
    std::vector<std::string> names;
    if (member.rank() == 0) device.Pause();
    auto of_device = member.AllReduceAsync(On(device, numbers, 1));
    auto of_host = member.AllReduceAsync(BufferOf(absl::MakeSpan(host)));
    auto gather = member.AllGatherAsync(std::to_string(member.rank()), &names);
    auto again = member.AllReduceAsync(On(device, numbers, 0));
    if (member.rank() == 0) device.Resume();
    ASSERT_TRUE(member.Barrier().ok());
    ASSERT_TRUE(gather->Wait().ok());
    ASSERT_TRUE(again->Wait().ok());
    ASSERT_TRUE(of_host->Wait().ok());
    ASSERT_TRUE(of_device->Wait().ok());
    EXPECT_THAT(numbers.Get(), ElementsAre(3));
    EXPECT_THAT(host, ElementsAre(10));
    EXPECT_THAT(names, ElementsAre("0", "1"));
  });
}

TEST(StagedCommunicator, RunsSeveralAtOnceAndReusesItsMemory) {
  Group(2).Run([](Communicator& member, WatchedDevice& device) {
    std::vector<std::unique_ptr<DeviceNumbers>> buffers;
    for (size_t i = 0; i < 4; ++i) {
      buffers.push_back(std::make_unique<DeviceNumbers>(device, std::vector<double>(100 * (i + 1), 1)));
    }
    for (int round = 1; round <= 4; ++round) {
      const int before = device.host_allocations();
      std::vector<std::unique_ptr<Work>> works;
      for (int64_t i = 0; i < 4; ++i)
        works.push_back(member.AllReduceAsync(On(device, *buffers[static_cast<size_t>(i)], 100 * (i + 1))));
      for (auto& work : works) ASSERT_TRUE(work->Wait().ok());
      works.clear();
      EXPECT_EQ(device.host_allocations() - before, round == 1 ? 4 : 0);
      for (const auto& buffer : buffers) EXPECT_EQ(buffer->Get().back(), 1 << round);
    }
  });
}

TEST(StagedCommunicator, AGroupOfOneCopiesNothing) {
  Group group(1);
  auto& [device, member] = group[0];
  const auto stream = device.CreateStream().value();
  const DeviceNumbers numbers(device, {4});
  const int before = device.copies();
  auto work = member->AllReduceAsync(On(device, numbers, 1));
  EXPECT_TRUE(work->Then(stream->get()).ok());
  EXPECT_TRUE(work->Wait().ok());
  EXPECT_EQ(device.copies(), before);
  EXPECT_THAT(numbers.Get(), ElementsAre(4));
  member->Abort("enough");
  EXPECT_EQ(member->AllReduce(On(device, numbers, 1)).code(), absl::StatusCode::kAborted);
}

TEST(StagedCommunicator, RefusesAnotherDeviceAndStillWorks) {
  Group(2).Run([](Communicator& member, WatchedDevice& device) {
    device::GuardedDevice other;
    const DeviceNumbers elsewhere(other, {1});
    const absl::Status status = member.AllReduce(On(other, elsewhere, 1));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("a buffer on guarded"));
    EXPECT_EQ(member.AllReduceAsync(On(other, elsewhere, 1))->Then(nullptr).code(),
              absl::StatusCode::kInvalidArgument);
    const DeviceNumbers here(device, {1});
    EXPECT_TRUE(member.AllReduce(On(device, here, 1)).ok());
  });
}

TEST(StagedCommunicator, WhatIsOfMainMemoryHasNoPlaceOnAStream) {
  Group(2).Run([](Communicator& member, WatchedDevice& device) {
    const DeviceNumbers numbers(device, {1});
    std::vector<double> host = {1};
    device.Pause();
    auto of_device = member.AllReduceAsync(On(device, numbers, 1));
    auto of_host = member.AllReduceAsync(BufferOf(absl::MakeSpan(host)));
    EXPECT_EQ(of_host->Then(nullptr).code(), absl::StatusCode::kFailedPrecondition);
    device.Resume();
    EXPECT_TRUE(of_host->Wait().ok());
  });
}

TEST(StagedCommunicator, ATimeoutHoldsForTheCollectivesThatFollow) {
  Group group(2, absl::Hours(1));
  auto& [device, member] = group[0];
  const DeviceNumbers numbers(device, {1});
  member->SetTimeout(absl::Milliseconds(1));
  const absl::Status status = member->AllReduce(On(device, numbers, 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1 has not arrived"));
  EXPECT_EQ(member->Barrier(), status);
}

TEST(StagedCommunicator, AnAbortEndsWhatIsUnderWayEverywhere) {
  Group group(2);
  auto& [device, member] = group[0];
  const DeviceNumbers numbers(device, {1});
  const DeviceNumbers others(group[1].device, {1});
  device.Pause();
  auto first = member->AllReduceAsync(On(device, numbers, 1));
  auto second = member->AllReduceAsync(On(device, numbers, 1));
  absl::Status elsewhere;
  std::thread other([&] { elsewhere = group[1].communicator->AllReduce(On(group[1].device, others, 1)); });
  member->Abort("enough");
  other.join();
  EXPECT_EQ(elsewhere, absl::UnavailableError("rank 0 has aborted: enough"));
  device.Resume();
  EXPECT_EQ(first->Then(nullptr), absl::AbortedError("enough"));
  EXPECT_EQ(first->Wait(), absl::AbortedError("enough"));
  EXPECT_EQ(second->Wait(), absl::AbortedError("enough"));
  EXPECT_EQ(member->AllReduce(On(device, numbers, 1)), absl::AbortedError("enough"));
  EXPECT_EQ(member->Barrier(), absl::AbortedError("enough"));
}

TEST(StagedCommunicator, ALostDeviceEndsTheGroup) {
  Group group(2);
  auto& [device, member] = group[0];
  const DeviceNumbers numbers(device, {1});
  device.Lose();
  EXPECT_EQ(member->AllReduce(On(device, numbers, 1)), WatchedDevice::Lost());
  EXPECT_EQ(member->Barrier(), WatchedDevice::Lost());
  EXPECT_EQ(group[1].communicator->Barrier(),
            absl::UnavailableError("rank 0 has aborted: watched: the device is lost"));
}

TEST(StagedCommunicator, ADeviceLostUnderWayEndsTheGroup) {
  Group group(2);
  auto& [device, member] = group[0];
  const DeviceNumbers numbers(device, {1});
  const DeviceNumbers others(group[1].device, {1});
  device.Pause();
  auto work = member->AllReduceAsync(On(device, numbers, 1));
  device.Lose();
  device.Resume();
  // Whether the exchange comes to its end or not, the next one does not.
  (void)group[1].communicator->AllReduce(On(group[1].device, others, 1));
  EXPECT_EQ(work->Wait(), WatchedDevice::Lost());
  EXPECT_EQ(member->Barrier(), WatchedDevice::Lost());
  EXPECT_EQ(group[1].communicator->Barrier().code(), absl::StatusCode::kUnavailable);
  // Nobody could wait for the copies: this device does them still, at the latest when their streams end.
  work.reset();
  member.reset();
}

TEST(StagedCommunicator, IsDestroyedWithWorkUnderWay) {
  Group group(2, absl::Milliseconds(1));
  auto& [device, member] = group[0];
  const DeviceNumbers numbers(device, {1});
  auto first = member->AllReduceAsync(On(device, numbers, 1));
  auto second = member->AllReduceAsync(On(device, numbers, 1));
  member.reset();
  EXPECT_FALSE(first->Wait().ok());
  EXPECT_FALSE(second->Wait().ok());
}

TEST(StagedCommunicator, ALostProcessIsNoticedWhileWorkIsPending) {
  MemberProcesses members(3, absl::Minutes(10), [](std::unique_ptr<Communicator> inner) {
    const int rank = inner->rank();
    device::GuardedDevice device;
    auto member = Staged(std::move(inner), &device);
    const DeviceNumbers numbers(device, {1.0 + rank});
    CheckOk(member->AllReduce(On(device, numbers, 1)));
    Check(numbers.Get() == std::vector<double>{6}, "sum");
    device.Pause();
    auto first = member->AllReduceAsync(On(device, numbers, 1));
    auto second = member->AllReduceAsync(On(device, numbers, 1));
    if (rank == 1) _exit(0);
    device.Resume();
    CheckStatus(first->Wait(), absl::StatusCode::kUnavailable, {"rank 1 is lost"});
    CheckStatus(second->Then(nullptr), absl::StatusCode::kUnavailable, {"rank 1 is lost"});
    CheckStatus(member->Barrier(), absl::StatusCode::kUnavailable, {"rank 1 is lost"});
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(members.Wait(rank), 0);
}

}  // namespace
}  // namespace adaptdl::comm
