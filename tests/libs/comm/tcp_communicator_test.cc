// Gloo between real processes, and between threads where all that matters is what is computed.

#include "libs/comm/tcp_communicator.h"

#include <malloc.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/comm/in_process_communicator.h"
#include "libs/comm/replaceable_communicator.h"
#include "libs/device/cpu_device.h"
#include "tests/libs/comm/member_processes.h"

namespace adaptdl::comm {
namespace {

// Far longer than anything here takes: what is noticed in time was noticed, not waited for.
constexpr absl::Duration kNever = absl::Minutes(10);

std::vector<float> Pattern(int64_t count, int rank) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 1000 + rank);
  return values;
}

TEST(TcpCommunicator, RunsAllCollectivesBetweenProcesses) {
  MemberProcesses members(3, absl::Minutes(1), [](std::unique_ptr<Communicator> member) {
    std::vector<float> floats = {1.0f, static_cast<float>(member->rank())};
    std::vector<double> doubles = {0.5 - member->rank()};
    std::vector<int64_t> integers = {int64_t{1} << member->rank()};
    auto work_1 = member->AllReduceAsync(BufferOf(absl::MakeSpan(floats)));
    auto work_2 = member->AllReduceAsync(BufferOf(absl::MakeSpan(doubles)), ReduceOp::kMax);
    auto work_3 = member->AllReduceAsync(BufferOf(absl::MakeSpan(integers)), ReduceOp::kOr);
    Check(work_3->Wait().ok() && work_2->Wait().ok() && work_1->Wait().ok(), "all-reduce failed");
    Check(floats[0] == 3.0f && floats[1] == 3.0f, "sum");
    Check(doubles[0] == 0.5, "maximum");
    Check(integers[0] == 7, "or");

    std::string value = member->rank() == 2 ? std::string(100'000, 'z') : "";
    Check(member->BroadcastString(&value, 2).ok() && value == std::string(100'000, 'z'), "broadcast");

    auto all = member->AllGather(std::string(static_cast<size_t>(member->rank()) * 30'000, 'x'));
    Check(all.ok() && (*all)[0].empty() && (*all)[2] == std::string(60'000, 'x'), "all-gather");

    auto join = [](std::string left, const std::string& right) { return std::move(left) + "," + right; };
    auto joined = member->ReduceAsync(absl::StrCat(member->rank()), join);
    CheckOk(member->Barrier());
    auto text = joined->Wait();
    Check(text.ok() && *text == "0,1,2", "reduction of values");
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(members.Wait(rank), 0) << "rank " << rank;
}

// Sizes around the borders between the algorithms and their pieces.
TEST(TcpCommunicator, ReducesAndBroadcastsBuffersOfAnySize) {
  for (const int size : {2, 3, 5}) {
    MemberProcesses members(size, absl::Minutes(1), [size](std::unique_ptr<Communicator> member) {
      for (const int64_t count : {0, 1, 4096, 4097, 65'537, 262'144, 1'300'001}) {
        std::vector<float> sums = Pattern(count, member->rank());
        std::vector<float> root = Pattern(count, member->rank());
        auto reduced = member->AllReduceAsync(BufferOf(absl::MakeSpan(sums)));
        auto sent = member->BroadcastAsync(BufferOf(absl::MakeSpan(root)), 1);
        CheckOk(reduced->Wait());
        CheckOk(sent->Wait());
        Check(root == Pattern(count, 1), absl::StrCat("broadcast of ", count));
        std::vector<float> expected(count);
        for (int64_t i = 0; i < count; ++i) {
          expected[i] = static_cast<float>(size * (i % 1000) + static_cast<int64_t>(size * (size - 1) / 2));
        }
        Check(sums == expected, absl::StrCat("sum of ", count));
      }
      CheckOk(member->Barrier());
    });
    for (int rank = 0; rank < size; ++rank) EXPECT_EQ(members.Wait(rank), 0) << "rank " << rank;
  }
}

TEST(TcpCommunicator, EverySurvivorNamesAKilledPeerAtOnce) {
  const absl::Time start = absl::Now();
  for (const int killed : {0, 1, 2}) {
    // Its writing end is closed by all when no survivor needs the others any more.
    int done[2];
    ASSERT_EQ(pipe(done), 0);
    MemberProcesses members(3, kNever, [killed, &done](std::unique_ptr<Communicator> member) {
      // Large: goes round the ring, where only one of the survivors is connected to the one that it waits
      // for.
      std::vector<float> values(1 << 20, 1.0f);
      Check(member->AllReduce(BufferOf(absl::MakeSpan(values))).ok(), "first all-reduce");
      if (member->rank() == killed) raise(SIGKILL);
      const absl::Status status = member->AllReduce(BufferOf(absl::MakeSpan(values)));
      CheckStatus(status, absl::StatusCode::kUnavailable,
                  {"all-reduce (sum) of 4194304 bytes of float32, number 2", absl::StrCat("rank ", killed)});
      Check(member->Barrier() == status, "a later collective fails for another reason");
      // One that ends closes its connections, and would be named by one that has not noticed yet who was killed.
      close(done[1]);
      char none = 0;
      Check(read(done[0], &none, 1) == 0, "the others have noticed, too");
    });
    close(done[0]);
    close(done[1]);
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == killed) {
        EXPECT_TRUE(WIFSIGNALED(members.Wait(rank)));
      } else {
        EXPECT_EQ(members.Wait(rank), 0) << "rank " << rank << " when " << killed << " was killed";
      }
    }
  }
  EXPECT_LT(absl::Now() - start, kNever);
}

// Until the second member takes part, the first one stands in the barrier and says for whom it waits.
TEST(TcpCommunicator, TellsForWhomItWaits) {
  int waits[2];
  ASSERT_EQ(pipe(waits), 0);
  MemberProcesses members(2, kNever, [&](std::unique_ptr<Communicator> member) {
    CheckOk(member->Barrier());
    if (member->rank() == 1) {
      const std::optional<Standing> idle = member->standing();
      Check(idle.has_value() && idle->collective == 2 && idle->peer < 0, "between two collectives");
      char byte = 0;
      Check(read(waits[0], &byte, 1) == 1, "the other one waits");
      CheckOk(member->Barrier());
      return;
    }
    ReplaceableCommunicator replaceable(std::move(member));
    std::thread in_barrier([&] { CheckOk(replaceable.Barrier()); });
    std::optional<Standing> standing;
    do {
      standing = replaceable.standing();
      Check(standing.has_value(), "it can tell");
    } while (standing->peer != 1 || standing->stalled == absl::ZeroDuration());
    Check(standing->collective == 2, "its number");
    Check(write(waits[1], "", 1) == 1, "tell");
    in_barrier.join();
  });
  EXPECT_EQ(members.Wait(0), 0);
  EXPECT_EQ(members.Wait(1), 0);
}

TEST(TcpCommunicator, NoticesAPeerThatIsKilledInTheMiddleOfAnAllReduce) {
  int running[2];
  ASSERT_EQ(pipe(running), 0);
  MemberProcesses members(2, kNever, [&](std::unique_ptr<Communicator> member) {
    std::vector<float> values(4 << 20, 1.0f);
    for (bool told = false;; told = true) {
      const absl::Status status = member->AllReduce(BufferOf(absl::MakeSpan(values)));
      if (!status.ok()) {
        CheckStatus(status, absl::StatusCode::kUnavailable, {"all-reduce", "rank 1"});
        return;
      }
      if (!told && member->rank() == 0) Check(write(running[1], "!", 1) == 1, "cannot write");
    }
  });
  char byte = 0;
  ASSERT_EQ(read(running[0], &byte, 1), 1);
  members.Signal(1, SIGKILL);
  EXPECT_EQ(members.Wait(0), 0);
  EXPECT_TRUE(WIFSIGNALED(members.Wait(1)));
}

TEST(TcpCommunicator, NamesAStoppedPeerAtTheDeadline) {
  for (const int stopped : {0, 1}) {
    MemberProcesses members(3, absl::Seconds(1), [stopped](std::unique_ptr<Communicator> member) {
      if (member->rank() == stopped) raise(SIGSTOP);
      std::vector<float> values(1 << 20, 1.0f);
      const absl::Status status = member->AllReduce(BufferOf(absl::MakeSpan(values)));
      CheckStatus(status, absl::StatusCode::kDeadlineExceeded,
                  {"all-reduce", "number 1", "1s", absl::StrCat("rank ", stopped, " has not ")});
    });
    members.AwaitStopped(stopped);
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == stopped) continue;
      EXPECT_EQ(members.Wait(rank), 0) << "rank " << rank;
    }
  }
}

TEST(TcpCommunicator, AbortEndsAWaitForAStoppedPeer) {
  MemberProcesses members(2, kNever, [](std::unique_ptr<Communicator> member) {
    if (member->rank() == 1) raise(SIGSTOP);
    std::vector<float> values(1 << 20, 1.0f);
    std::vector<float> more(8, 1.0f);
    auto first = member->AllReduceAsync(BufferOf(absl::MakeSpan(values)));
    auto second = member->AllReduceAsync(BufferOf(absl::MakeSpan(more)));
    std::thread aborting([&] { member->Abort("enough"); });
    CheckStatus(first->Wait(), absl::StatusCode::kAborted, {"enough"});
    CheckStatus(second->Wait(), absl::StatusCode::kAborted, {"enough"});
    aborting.join();
    member.reset();
  });
  members.AwaitStopped(1);
  EXPECT_EQ(members.Wait(0), 0);
}

TEST(TcpCommunicator, AnAbortIsNoticedByTheOthers) {
  int formed[2];
  ASSERT_EQ(pipe(formed), 0);
  MemberProcesses members(3, kNever, [&](std::unique_ptr<Communicator> member) {
    char bytes[2] = {};
    if (member->rank() == 2) {
      // An abort while the others still form the group would fail their forming, not their barrier.
      for (char& byte : bytes) Check(read(formed[0], &byte, 1) == 1, "cannot read");
      member->Abort("enough");
      CheckStatus(member->Barrier(), absl::StatusCode::kAborted, {"enough"});
    } else {
      Check(write(formed[1], bytes, 1) == 1, "cannot write");
      CheckStatus(member->Barrier(), absl::StatusCode::kUnavailable, {"rank 2 has aborted: enough"});
    }
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(members.Wait(rank), 0) << "rank " << rank;
}

TEST(TcpCommunicator, GivesUpOnAPeerThatDoesNotTakePart) {
  int done[2];
  ASSERT_EQ(pipe(done), 0);
  MemberProcesses members(2, absl::Milliseconds(300), [&](std::unique_ptr<Communicator> member) {
    char byte = 0;
    if (member->rank() == 0) {
      std::vector<double> values = {1};
      CheckStatus(member->AllReduce(BufferOf(absl::MakeSpan(values))), absl::StatusCode::kDeadlineExceeded,
                  {"rank 1 has not arrived"});
      Check(write(done[1], &byte, 1) == 1, "cannot write");
    } else {
      Check(read(done[0], &byte, 1) == 1, "cannot read");
    }
  });
  EXPECT_EQ(members.Wait(0), 0);
  EXPECT_EQ(members.Wait(1), 0);
}

TEST(TcpCommunicator, MembersOutOfStepLearnWhatEachHasBegun) {
  MemberProcesses members(3, kNever, [](std::unique_ptr<Communicator> member) {
    std::vector<double> values = {1, 2};
    const absl::Status status = member->rank() == 1 ? member->Broadcast(BufferOf(absl::MakeSpan(values)), 1)
                                                    : member->AllReduce(BufferOf(absl::MakeSpan(values)));
    // The broadcast's root has nothing to wait for: it may notice with the next collective only.
    CheckStatus(member->rank() == 1 && status.ok() ? member->Barrier() : status,
                absl::StatusCode::kFailedPrecondition,
                {"broadcast from rank 1 of 16 bytes of float64", "all-reduce (sum) of 16 bytes of float64"});
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(members.Wait(rank), 0) << "rank " << rank;
}

// Here the frames do not meet: rank 0 waits for rank 2's, which has sent none. The reports tell.
TEST(TcpCommunicator, MembersOutOfStepLearnItEvenWhereTheirDataDoesNotMeet) {
  MemberProcesses members(3, absl::Seconds(20), [](std::unique_ptr<Communicator> member) {
    std::vector<float> values(1 << 20, 1.0f);
    const absl::Status status = member->rank() == 2 ? member->Broadcast(BufferOf(absl::MakeSpan(values)), 1)
                                                    : member->AllReduce(BufferOf(absl::MakeSpan(values)));
    CheckStatus(status, absl::StatusCode::kFailedPrecondition, {"broadcast", "all-reduce"});
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(members.Wait(rank), 0) << "rank " << rank;
}

TEST(TcpCommunicator, AMemberMayLeaveOnceItHasDoneItsPart) {
  for (int round = 0; round < 20; ++round) {
    MemberProcesses members(3, kNever, [](std::unique_ptr<Communicator> member) {
      std::vector<float> values = {1.0f};
      const absl::Status status = member->AllReduce(BufferOf(absl::MakeSpan(values)));
      CheckOk(status);
      // One bids farewell, one just ends.
      if (member->rank() == 1) member.reset();
    });
    for (int rank = 0; rank < 3; ++rank) ASSERT_EQ(members.Wait(rank), 0) << "rank " << rank;
  }
}

TEST(TcpCommunicator, NamesAPeerThatHasLeft) {
  MemberProcesses members(2, kNever, [](std::unique_ptr<Communicator> member) {
    CheckOk(member->Barrier());
    if (member->rank() == 1) return;
    CheckStatus(member->Barrier(), absl::StatusCode::kUnavailable, {"barrier, number 2", "rank 1"});
  });
  EXPECT_EQ(members.Wait(0), 0);
  EXPECT_EQ(members.Wait(1), 0);
}

TEST(TcpCommunicator, ATimeoutHoldsForTheCollectivesThatFollow) {
  MemberProcesses members(2, kNever, [](std::unique_ptr<Communicator> member) {
    CheckOk(member->Barrier());
    if (member->rank() == 1) {
      pause();
      return;
    }
    member->SetTimeout(absl::Milliseconds(200));
    CheckStatus(member->Barrier(), absl::StatusCode::kDeadlineExceeded,
                {"barrier, number 2, took longer than 200ms: rank 1 has not arrived"});
  });
  EXPECT_EQ(members.Wait(0), 0);
}

TEST(TcpCommunicator, AnImpatientMemberBlamesOnlyThoseThatHaveNotArrived) {
  // Rank 2 lacks; ranks 0 and 3 would wait for long, and say so seldom.
  MemberProcesses members(4, kNever, [](std::unique_ptr<Communicator> member) {
    CheckOk(member->Barrier());
    if (member->rank() == 2) {
      pause();
      return;
    }
    if (member->rank() == 1) member->SetTimeout(absl::Milliseconds(500));
    const absl::Status status = member->Barrier();
    CheckStatus(status, absl::StatusCode::kDeadlineExceeded, {"500ms: rank 2 has not arrived"});
  });
  EXPECT_EQ(members.Wait(0), 0);
  EXPECT_EQ(members.Wait(1), 0);
  EXPECT_EQ(members.Wait(3), 0);
}

TEST(TcpCommunicator, RefusesWhatCannotBeAndStillWorks) {
  MemberProcesses members(2, kNever, [](std::unique_ptr<Communicator> member) {
    std::vector<float> values = {1.0f};
    Buffer buffer = BufferOf(absl::MakeSpan(values));
    Check(absl::IsInvalidArgument(member->Broadcast(buffer, 2)), "root 2 of 2");
    Check(absl::IsInvalidArgument(member->AllReduce(buffer, ReduceOp::kOr)), "or of floats");
    buffer.device = &device::Cpu();
    Check(absl::IsInvalidArgument(member->AllReduce(buffer)), "memory of a device");
    Check(absl::IsInvalidArgument(member->AllReduce({nullptr, 3, DataType::kFloat32})), "no memory");
    CheckOk(member->Barrier());
  });
  EXPECT_EQ(members.Wait(0), 0);
  EXPECT_EQ(members.Wait(1), 0);
}

int64_t CountEntries(const char* folder) {
  int64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    (void)entry;
    ++count;
  }
  return count;
}

// One of two replicas: its rendezvous and its communicator stay while groups come and go.
struct Replica {
  std::unique_ptr<TcpRendezvous> rendezvous = *TcpRendezvous::Host("127.0.0.1");
  ReplaceableCommunicator communicator{std::move(CreateInProcessGroup(1).front())};
};

// Forms a group of two in threads in place of the one before, and exchanges something.
void FormNext(Replica& host, Replica& guest, int64_t group) {
  const auto take_part = [&](Replica& replica, int rank) {
    auto next = ConnectTcp(*replica.rendezvous, {.rank = rank,
                                                 .size = 2,
                                                 .group = group,
                                                 .host = "127.0.0.1",
                                                 .timeout = absl::Minutes(1),
                                                 .address = host.rendezvous->address()});
    ASSERT_TRUE(next.ok()) << next.status();
    replica.communicator.Replace(*std::move(next));
    std::vector<double> values = {1.0};
    const absl::Status status = replica.communicator.AllReduce(BufferOf(absl::MakeSpan(values)));
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(values[0], 2.0);
  };
  std::thread other([&] { take_part(guest, 1); });
  take_part(host, 0);
  other.join();
}

// Not the resident size: what the allocator keeps for later is no leak.
int64_t BytesInUse() {
  const struct mallinfo2 heap = mallinfo2();
  return static_cast<int64_t>(heap.uordblks + heap.hblkhd);
}

TEST(TcpCommunicator, FormingGroupsAgainAndAgainLeavesNothingBehind) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr int64_t kRounds = 100;  // they tell of a leak by themselves, and are slow
#else
  constexpr int64_t kRounds = 1000;
#endif
  std::array<Replica, 2> replicas;
  int64_t group = 0;
  // Rank 0 is now the one, now the other.
  const auto form = [&] { FormNext(replicas[group % 2], replicas[1 - group % 2], group), ++group; };
  while (group < 50) form();
  const int64_t sockets = CountEntries("/proc/self/fd");
  const int64_t threads = CountEntries("/proc/self/task");
  const int64_t bytes = BytesInUse();
  while (group < kRounds) form();
  EXPECT_EQ(CountEntries("/proc/self/fd"), sockets);
  EXPECT_EQ(CountEntries("/proc/self/task"), threads);
  // A hundred bytes per group would be more.
  EXPECT_LT(BytesInUse(), bytes + (kRounds - 50) * 100);
}

}  // namespace
}  // namespace adaptdl::comm
