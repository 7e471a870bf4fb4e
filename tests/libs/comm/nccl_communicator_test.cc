// The NCCL communicator over a NCCL of the test's own, and devices that the host cannot touch.

#include "libs/comm/nccl_communicator.h"

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/comm/nccl_library.h"
#include "libs/device/guarded_device.h"
#include "tests/libs/comm/fake_nccl.h"
#include "tests/libs/device/device_memory.h"

namespace adaptdl::comm {
namespace {

using device::DeviceNumbers;
using device::GuardedDevice;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NcclCommunicatorTest : public testing::Test {
 protected:
  struct Member {
    GuardedDevice device;
    std::unique_ptr<Communicator> communicator;

    Buffer On(const DeviceNumbers& numbers, int64_t count, device::Stream stream = nullptr) {
      return {numbers.data(), count, numbers.type(), &device, stream};
    }
  };
  using Connected = absl::StatusOr<std::unique_ptr<Communicator>>;

  Connected Connect(int rank, absl::Duration timeout, const absl::StatusOr<NcclLibrary>& library) {
    auto guest = rank == 0 ? nullptr : *TcpRendezvous::Join(host_->address());
    return ConnectNccl(rank == 0 ? *host_ : *guest,
                       {.rank = rank, .size = 2, .group = 1, .host = "127.0.0.1", .timeout = timeout},
                       members_[rank].device, {library});
  }

  // Runs `body` on both members, each on a thread of its own, and takes them down together.
  void OnBoth(const std::function<void(Member& member, int rank)>& body,
              absl::Duration timeout = absl::Seconds(30)) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        Member& member = members_[rank];
        Connected connected = Connect(rank, timeout, nccl_.LibraryFor(&member.device));
        ASSERT_TRUE(connected.ok()) << connected.status();
        member.communicator = *std::move(connected);
        body(member, rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::thread other([&] { members_[1].communicator.reset(); });
    members_[0].communicator.reset();
    other.join();
  }

  FakeNccl nccl_;
  const std::unique_ptr<TcpRendezvous> host_ = *TcpRendezvous::Host("127.0.0.1");
  Member members_[2];
};

TEST_F(NcclCommunicatorTest, SumsAndBroadcastsOfAllTypesGoOverNcclAndAllElseDoesNot) {
  OnBoth([](Member& member, int rank) {
    for (const DataType type :
         {DataType::kFloat32, DataType::kFloat64, DataType::kFloat16, DataType::kBFloat16}) {
      DeviceNumbers numbers(member.device, {1.0 + rank, 2}, type);
      ASSERT_TRUE(member.communicator->AllReduce(member.On(numbers, 2)).ok());
      EXPECT_THAT(numbers.Get(), ElementsAre(3, 4));
      numbers.Set({5.0 + rank, 6});
      ASSERT_TRUE(member.communicator->Broadcast(member.On(numbers, 2), 1).ok());
      EXPECT_THAT(numbers.Get(), ElementsAre(6, 6));
    }
    std::vector<double> in_main_memory = {1.0 + rank};
    ASSERT_TRUE(member.communicator->AllReduce(BufferOf(absl::MakeSpan(in_main_memory))).ok());
    EXPECT_THAT(in_main_memory, ElementsAre(3));
    EXPECT_THAT(member.communicator->AllGather(rank == 0 ? "a" : "b").value(), ElementsAre("a", "b"));
    ASSERT_TRUE(member.communicator->Barrier().ok());
  });
  EXPECT_EQ(nccl_.counts().collectives, 2 * 4 * 2);
}

// The caller waits for nothing that the device does until it asks for the outcome.
TEST_F(NcclCommunicatorTest, AStreamComesAfterACollectiveAndTheCallerGoesOn) {
  OnBoth([](Member& member, int rank) {
    const auto filling = member.device.CreateStream().value();
    const auto reading = member.device.CreateStream().value();
    const DeviceNumbers source(member.device, {3.0 + rank});
    const DeviceNumbers numbers(member.device, {0});
    const DeviceNumbers copy(member.device, {0});
    const int64_t waits = device::Device::WaitsOfThread();
    member.device.Pause();
    ASSERT_TRUE(member.device.Copy(numbers.data(), source.data(), 8, filling->get()).ok());
    const auto work = member.communicator->AllReduceAsync(member.On(numbers, 1, filling->get()));
    ASSERT_TRUE(work->Then(reading->get()).ok());
    ASSERT_TRUE(member.device.Copy(copy.data(), numbers.data(), 8, reading->get()).ok());
    EXPECT_EQ(device::Device::WaitsOfThread(), waits);
    member.device.Resume();
    device::Synchronize(member.device, reading->get());
    EXPECT_TRUE(work->Wait().ok());
    EXPECT_EQ(device::Device::WaitsOfThread(), waits + 1) << "the collective was done, as the stream was";
    EXPECT_THAT(copy.Get(), ElementsAre(7));
  });
}

TEST_F(NcclCommunicatorTest, WaitReturnsWhenTheCollectiveIsDone) {
  OnBoth([](Member& member, int rank) {
    const DeviceNumbers numbers(member.device, {1.0 + rank});
    for (int i = 0; i < 20; ++i) {
      const auto one = member.communicator->AllReduceAsync(member.On(numbers, 1));
      const auto two = member.communicator->BroadcastAsync(member.On(numbers, 1), 0);
      EXPECT_TRUE(two->Wait().ok());
      EXPECT_TRUE(one->Wait().ok());
    }
    EXPECT_THAT(numbers.Get(), ElementsAre(3 << 19));
  });
}

TEST_F(NcclCommunicatorTest, AnOrdinaryEndAbortsNothing) {
  OnBoth([](Member& member, int /*rank*/) { EXPECT_TRUE(member.communicator->Barrier().ok()); });
  EXPECT_EQ(nccl_.counts().finalized, 2);
  EXPECT_EQ(nccl_.counts().destroyed, 2);
  EXPECT_EQ(nccl_.counts().aborted, 0);
}

TEST_F(NcclCommunicatorTest, AMemberThatAbortsEndsWhatTheOtherIsIn) {
  OnBoth([](Member& member, int rank) {
    if (rank == 1) {
      member.communicator->Abort("gone");
      return;
    }
    const DeviceNumbers numbers(member.device, {1});
    EXPECT_TRUE(absl::IsUnavailable(member.communicator->AllReduce(member.On(numbers, 1))));
    EXPECT_TRUE(absl::IsUnavailable(member.communicator->Barrier())) << "both kinds";
  });
  EXPECT_EQ(nccl_.counts().aborted, 2);
}

TEST_F(NcclCommunicatorTest, ACollectiveThatAMemberDoesNotStartEndsAtItsDeadline) {
  absl::Notification ended;
  OnBoth(
      [&](Member& member, int rank) {
        if (rank == 1) {
          ended.WaitForNotification();
          EXPECT_FALSE(member.communicator->Barrier().ok());
          return;
        }
        const DeviceNumbers numbers(member.device, {1});
        const absl::Status status = member.communicator->AllReduce(member.On(numbers, 1));
        EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
        EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1"));
        ended.Notify();
      },
      absl::Milliseconds(300));
}

TEST_F(NcclCommunicatorTest, WhatNcclReportsEndsTheGroup) {
  OnBoth([this](Member& member, int rank) {
    ASSERT_TRUE(member.communicator->Barrier().ok());
    if (rank == 0) nccl_.Fail(nccl::Result::kRemoteError);
    const DeviceNumbers numbers(member.device, {1});
    absl::Status status;
    while (status.ok()) status = member.communicator->AllReduce(member.On(numbers, 1));
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  });
}

TEST_F(NcclCommunicatorTest, AllSayWhichMemberHasNoNcclOrAnotherOne) {
  const absl::StatusOr<NcclLibrary> libraries[] = {absl::FailedPreconditionError("no libnccl.so.2 here"),
                                                   nccl_.LibraryFor(&members_[1].device, 22000)};
  for (const auto& library : libraries) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        const Connected connected =
            Connect(rank, absl::Seconds(30),
                    rank == 0 ? absl::StatusOr<NcclLibrary>(nccl_.LibraryFor(&members_[0].device)) : library);
        EXPECT_TRUE(absl::IsFailedPrecondition(connected.status())) << connected.status();
        EXPECT_THAT(std::string(connected.status().message()),
                    AllOf(HasSubstr("rank 1"), HasSubstr(library.ok() ? "2.20.0" : "no libnccl.so.2 here")));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(NcclLibraryTest, SaysWhatToDoWhereThereIsNone) {
  const absl::Status status = NcclLibrary::OpenAt("/nowhere/libnccl.so.2").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("/nowhere"), HasSubstr("ADAPTDL_NCCL_LIBRARY")));
}

TEST(NcclLibraryTest, RefusesWhatIsNoNccl) {
  const absl::Status status = NcclLibrary::OpenAt("libm.so.6").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("ncclGetVersion"));
}

}  // namespace
}  // namespace adaptdl::comm
