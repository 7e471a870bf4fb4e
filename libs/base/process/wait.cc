#include "libs/base/process/wait.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <vector>

#include "libs/base/clock.h"

namespace adaptdl {
namespace {

// SIGKILL takes effect at once but for a process inside the kernel.
constexpr absl::Duration kKillGrace = absl::Seconds(5);
// How long to wait at once: with something to wait on, and without.
constexpr absl::Duration kWaitPeriod = absl::Seconds(1);
constexpr absl::Duration kLookPeriod = absl::Milliseconds(20);

bool WaitForEndUntil(const ProcessIdentity& process, absl::Time deadline) {
  // Opened before it is looked at: it is no later process of this pid.
  const UniqueFd end = OpenPidfd(process.pid);
  while (IsAlive(process)) {
    const absl::Duration left = deadline - SteadyNow();
    if (left <= absl::ZeroDuration()) return false;
    const absl::Duration wait = std::min(left, end.valid() ? kWaitPeriod : kLookPeriod);
    pollfd event = {end.get(), POLLIN, 0};
    poll(&event, 1, static_cast<int>(absl::ToInt64Milliseconds(wait)) + 1);
  }
  return true;
}

void SignalAll(const std::vector<ProcessIdentity>& processes, int signal) {
  // Fails only for those that have ended, or that belong to somebody else: the wait tells.
  for (const ProcessIdentity& process : processes) SignalProcess(process, signal).IgnoreError();
}

}  // namespace

UniqueFd OpenPidfd(pid_t pid) { return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

ProcessEnd EndFromWaitStatus(int status) {
  if (WIFSIGNALED(status)) return {.signal = WTERMSIG(status), .code = 128 + WTERMSIG(status)};
  return {.signal = 0, .code = WEXITSTATUS(status)};
}

std::optional<ProcessEnd> WaitForChild(pid_t pid) {
  int status = 0;
  pid_t reaped;
  do {
    reaped = waitpid(pid, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  return reaped == pid ? std::optional<ProcessEnd>(EndFromWaitStatus(status)) : std::nullopt;
}

bool WaitForEnd(const std::vector<ProcessIdentity>& processes, absl::Duration timeout) {
  const absl::Time deadline = SteadyNow() + timeout;
  return std::all_of(processes.begin(), processes.end(), [deadline](const ProcessIdentity& process) {
    return WaitForEndUntil(process, deadline);
  });
}

bool StopProcesses(const std::vector<ProcessIdentity>& processes, absl::Duration grace) {
  SignalAll(processes, SIGTERM);
  if (WaitForEnd(processes, grace)) return true;
  SignalAll(processes, SIGKILL);
  return WaitForEnd(processes, kKillGrace);
}

}  // namespace adaptdl
