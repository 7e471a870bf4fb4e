// A group whose members are processes, forked before any thread exists.

#ifndef ADAPTDL_TESTS_LIBS_COMM_MEMBER_PROCESSES_H_
#define ADAPTDL_TESTS_LIBS_COMM_MEMBER_PROCESSES_H_

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/comm/communicator.h"
#include "libs/comm/tcp_communicator.h"
#include "libs/comm/tcp_rendezvous.h"

namespace adaptdl::comm {

// In a member: the test's verdict is the exit code.
inline void Check(bool condition, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "member %d: %s\n", static_cast<int>(getpid()), what.c_str());
  _exit(1);
}

inline void CheckOk(const absl::Status& status) { Check(status.ok(), status.ToString()); }

// In a member: a status must have `code`, and name all of `parts`.
inline void CheckStatus(const absl::Status& status, absl::StatusCode code,
                        const std::vector<std::string>& parts) {
  Check(status.code() == code, status.ToString());
  for (const std::string& part : parts) {
    Check(status.message().find(part) != absl::string_view::npos,
          absl::StrCat("not \"", part, "\" in: ", status.ToString()));
  }
}

class MemberProcesses {
 public:
  // Forks `size` members that connect to each other and run `body`.
  MemberProcesses(int size, absl::Duration timeout,
                  const std::function<void(std::unique_ptr<Communicator>)>& body) {
    auto hosted = TcpRendezvous::Host("127.0.0.1");
    EXPECT_TRUE(hosted.ok()) << hosted.status();
    std::unique_ptr<TcpRendezvous> rendezvous = *std::move(hosted);
    for (int rank = 0; rank < size; ++rank) {
      const pid_t pid = fork();
      if (pid == 0) {
        if (rank != 0) {
          auto joined = TcpRendezvous::Join(rendezvous->address());
          Check(joined.ok(), joined.status().ToString());
          rendezvous = *std::move(joined);
        }
        auto communicator = ConnectTcp(
            *rendezvous,
            {.rank = rank, .size = size, .group = 1, .token = "t", .host = "127.0.0.1", .timeout = timeout});
        Check(communicator.ok(), communicator.status().ToString());
        body(*std::move(communicator));
        _exit(0);
      }
      pids_.push_back(pid);
    }
  }

  // A test that has failed leaves none behind.
  ~MemberProcesses() {
    for (size_t rank = 0; rank < pids_.size(); ++rank) {
      if (pids_[rank] > 0) {
        kill(pids_[rank], SIGKILL);
        (void)waitpid(pids_[rank], nullptr, 0);
      }
    }
  }

  void Signal(int rank, int signal) { kill(pids_[rank], signal); }

  // Blocks until the member has stopped (SIGSTOP).
  void AwaitStopped(int rank) {
    int status = 0;
    EXPECT_EQ(waitpid(pids_[rank], &status, WUNTRACED), pids_[rank]);
    EXPECT_TRUE(WIFSTOPPED(status));
  }

  // The raw status of waitpid.
  int Wait(int rank) {
    int status = 0;
    EXPECT_EQ(waitpid(pids_[rank], &status, 0), pids_[rank]);
    pids_[rank] = 0;
    return status;
  }

 private:
  std::vector<pid_t> pids_;
};

}  // namespace adaptdl::comm

#endif  // ADAPTDL_TESTS_LIBS_COMM_MEMBER_PROCESSES_H_
