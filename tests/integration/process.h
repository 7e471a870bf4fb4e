// A child process of a test: started with its output in a file, killed when the test forgets to.
//
// Thread-safety: one thread at a time per object.

#ifndef ADAPTDL_TESTS_INTEGRATION_PROCESS_H_
#define ADAPTDL_TESTS_INTEGRATION_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace adaptdl::integration {

class Process {
 public:
  Process() = default;
  ~Process();
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;

  // Starts `arguments` (the first is the program) with both outputs appended to `log`. The child dies with
  // the test. `network`: the network namespace that it runs in; negative: that of the test.
  static Process Start(const std::vector<std::string>& arguments, const std::string& log, int network = -1);

  bool running() const { return pid_ > 0; }
  pid_t pid() const { return pid_; }

  void Signal(int signal) const;

  // Waits for the end. Returns the exit code, or 128 + the signal's number. -1: still running after
  // `timeout`.
  int Wait(absl::Duration timeout);

  // SIGKILL, and waits.
  void Kill();

 private:
  pid_t pid_ = -1;
  int pidfd_ = -1;
};

// Kills (SIGKILL) all processes whose command line holds `text`. Returns how many there were.
int KillProcessesMatching(const std::string& text);

// Process ids of all processes whose command line holds `text`.
std::vector<pid_t> FindProcesses(const std::string& text);

// A TCP port of the loopback that nobody listens on now.
int FreePort();

}  // namespace adaptdl::integration

#endif  // ADAPTDL_TESTS_INTEGRATION_PROCESS_H_
