// Waiting for processes, and ending them.
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_LIBS_BASE_PROCESS_WAIT_H_
#define ADAPTDL_LIBS_BASE_PROCESS_WAIT_H_

#include <sys/types.h>

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "libs/base/process/process_identity.h"
#include "libs/base/unique_fd.h"

namespace adaptdl {

// A descriptor of the process that has this pid now; it becomes readable when the process has ended. None:
// there is no such process, or the kernel (before 5.3) or its filters know nothing of the kind.
UniqueFd OpenPidfd(pid_t pid);

// How a process has ended.
struct ProcessEnd {
  // The signal that ended it. 0: none did.
  int signal = 0;
  // Its exit code; after a signal, 128 and its number, as shells have it.
  int code = 0;
};

// Of what waitpid(2) tells.
ProcessEnd EndFromWaitStatus(int status);

// Waits for a child of ours, and reaps it. Nothing: somebody else has reaped it, or it is not our child.
std::optional<ProcessEnd> WaitForChild(pid_t pid);

// Waits until none of these processes, children or not, is alive. False: one still was after `timeout`.
bool WaitForEnd(const std::vector<ProcessIdentity>& processes, absl::Duration timeout);

// Asks all to end (SIGTERM), and ends those that live after `grace` (SIGKILL). Returns when none lives; false
// if one withstood even that for some seconds.
bool StopProcesses(const std::vector<ProcessIdentity>& processes, absl::Duration grace);

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_PROCESS_WAIT_H_
