// Gloo between real processes: each case forks its members before any thread exists.

#include "libs/comm/gloo_communicator.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace adaptdl::comm {
namespace {

// In a member: the test's verdict is the exit code.
void Check(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "member: %s\n", what);
  _exit(1);
}

class Members {
 public:
  // Forks `size` members that connect to each other and run `body`; rank 0 hosts the rendezvous.
  Members(int size, absl::Duration timeout, const std::function<void(Communicator&)>& body) {
    int address[2];
    EXPECT_EQ(pipe(address), 0);
    for (int rank = 0; rank < size; ++rank) {
      const pid_t pid = fork();
      if (pid == 0) {
        RunMember(rank, size, timeout, address, body);
        _exit(0);
      }
      pids_.push_back(pid);
    }
    close(address[0]);
    close(address[1]);
  }

  void Kill(int rank) { kill(pids_[rank], SIGKILL); }

  // The raw status of waitpid.
  int Wait(int rank) {
    int status = 0;
    EXPECT_EQ(waitpid(pids_[rank], &status, 0), pids_[rank]);
    return status;
  }

 private:
  static void RunMember(int rank, int size, absl::Duration timeout, const int (&address)[2],
                        const std::function<void(Communicator&)>& body) {
    std::unique_ptr<TcpRendezvous> rendezvous;
    if (rank == 0) {
      auto hosted = TcpRendezvous::Host("127.0.0.1");
      Check(hosted.ok(), "cannot host");
      rendezvous = *std::move(hosted);
      // A fixed length, so that each reader gets exactly one copy.
      std::string text = rendezvous->address();
      text.resize(64, ' ');
      for (int i = 1; i < size; ++i) Check(write(address[1], text.data(), text.size()) == 64, "cannot write");
    } else {
      char text[64];
      Check(read(address[0], text, sizeof(text)) == 64, "no address");
      std::string trimmed(text, sizeof(text));
      trimmed.erase(trimmed.find(' '));
      auto joined = TcpRendezvous::Join(trimmed);
      Check(joined.ok(), "cannot join");
      rendezvous = *std::move(joined);
    }
    auto communicator = ConnectGloo(
        *rendezvous, {.rank = rank, .size = size, .group = "1", .host = "127.0.0.1", .timeout = timeout});
    Check(communicator.ok(), "cannot connect");
    body(**communicator);
    // Whoever leaves first must not disturb the others' last collective.
    (void)(*communicator)->Barrier();
    _exit(0);
  }

  std::vector<pid_t> pids_;
};

TEST(GlooCommunicator, RunsAllCollectivesBetweenProcesses) {
  Members members(3, absl::Minutes(1), [](Communicator& member) {
    std::vector<float> floats = {1.0f, static_cast<float>(member.rank())};
    std::vector<double> doubles = {0.5};
    std::vector<int64_t> integers = {int64_t{1} << 40};
    auto work_1 = member.AllReduceAsync(BufferOf(absl::MakeSpan(floats)));
    auto work_2 = member.AllReduceAsync(BufferOf(absl::MakeSpan(doubles)));
    auto work_3 = member.AllReduceAsync(BufferOf(absl::MakeSpan(integers)));
    Check(work_1->Wait().ok() && work_2->Wait().ok() && work_3->Wait().ok(), "all-reduce failed");
    Check(floats[0] == 3.0f && floats[1] == 3.0f, "float sum");
    Check(doubles[0] == 1.5, "double sum");
    Check(integers[0] == int64_t{3} << 40, "integer sum");

    std::string value = member.rank() == 2 ? std::string(100'000, 'z') : "";
    Check(member.BroadcastString(&value, 2).ok() && value == std::string(100'000, 'z'), "broadcast");

    auto all = member.AllGather(std::to_string(member.rank()));
    Check(all.ok() && *all == std::vector<std::string>({"0", "1", "2"}), "all-gather");
    Check(member.Barrier().ok(), "barrier");
  });
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(members.Wait(rank), 0) << "rank " << rank;
}

TEST(GlooCommunicator, NoticesAKilledPeerAtOnce) {
  const absl::Time start = absl::Now();
  Members members(3, absl::Minutes(10), [](Communicator& member) {
    std::vector<float> values(1000, 1.0f);
    Check(member.AllReduce(BufferOf(absl::MakeSpan(values))).ok(), "first all-reduce");
    if (member.rank() == 1) {
      kill(getpid(), SIGKILL);
    }
    const absl::Status status = member.AllReduce(BufferOf(absl::MakeSpan(values)));
    Check(status.code() == absl::StatusCode::kUnavailable, status.ToString().c_str());
    Check(!member.Barrier().ok(), "a broken communicator still works");
    _exit(0);
  });
  EXPECT_EQ(members.Wait(0), 0);
  EXPECT_TRUE(WIFSIGNALED(members.Wait(1)));
  EXPECT_EQ(members.Wait(2), 0);
  // Far below the communicator's timeout: the loss was noticed, not waited for.
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
}

TEST(GlooCommunicator, AbortFreesTheOneWhoWaits) {
  Members members(2, absl::Minutes(10), [](Communicator& member) {
    if (member.rank() == 0) {
      absl::Status status;
      std::vector<double> values = {1};
      auto work = member.AllReduceAsync(BufferOf(absl::MakeSpan(values)));
      std::thread aborting([&] { member.Abort("enough"); });
      status = work->Wait();
      aborting.join();
      Check(status.code() == absl::StatusCode::kAborted, status.ToString().c_str());
    } else {
      std::vector<double> values = {1};
      Check(member.Broadcast(BufferOf(absl::MakeSpan(values)), 0).code() == absl::StatusCode::kUnavailable,
            "the abort was not noticed");
    }
    _exit(0);
  });
  EXPECT_EQ(members.Wait(0), 0);
  EXPECT_EQ(members.Wait(1), 0);
}

TEST(GlooCommunicator, GivesUpOnAPeerThatDoesNotTakePart) {
  int done[2];
  ASSERT_EQ(pipe(done), 0);
  Members members(2, absl::Seconds(1), [&](Communicator& member) {
    char byte = 0;
    if (member.rank() == 0) {
      std::vector<double> values = {1};
      const absl::Status status = member.AllReduce(BufferOf(absl::MakeSpan(values)));
      Check(status.code() == absl::StatusCode::kDeadlineExceeded, status.ToString().c_str());
      Check(write(done[1], &byte, 1) == 1, "cannot write");
    } else {
      Check(read(done[0], &byte, 1) == 1, "cannot read");
    }
    _exit(0);
  });
  EXPECT_EQ(members.Wait(0), 0);
  EXPECT_EQ(members.Wait(1), 0);
}

TEST(TcpRendezvous, RefusesAnAddressWithoutPort) {
  EXPECT_EQ(TcpRendezvous::Join("nowhere").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace adaptdl::comm
