#include "libs/kube/access/run_program.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/clock.h"
#include "libs/base/file.h"
#include "libs/base/process/pipe.h"
#include "libs/base/process/spawn.h"
#include "libs/base/process/wait.h"
#include "libs/base/unique_fd.h"

namespace adaptdl::kube {
namespace {

// Waits for `fd` to become readable; `stopped` does by a stop request.
absl::Status AwaitReadable(int fd, int stopped, absl::Time deadline) {
  while (true) {
    const absl::Duration left = deadline - SteadyNow();
    if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError("it takes too long");
    pollfd events[] = {{fd, POLLIN, 0}, {stopped, POLLIN, 0}};
    poll(events, 2, static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(left) + 1, 60'000)));
    if (events[1].revents != 0) return absl::CancelledError("a stop was requested");
    if (events[0].revents != 0) return absl::OkStatus();
  }
}

absl::StatusOr<std::string> ReadOutput(int output, int stopped, absl::Time deadline, size_t max_bytes) {
  std::string text;
  char buffer[4096];
  while (true) {
    if (const absl::Status status = AwaitReadable(output, stopped, deadline); !status.ok()) return status;
    const ssize_t count = ReadSome(output, buffer, sizeof(buffer));
    if (count <= 0) return text;
    text.append(buffer, count);
    if (text.size() > max_bytes) {
      return absl::OutOfRangeError(absl::StrCat("it writes more than ", max_bytes, " bytes"));
    }
  }
}

}  // namespace

absl::StatusOr<std::string> RunForOutput(const RunOptions& options, const std::stop_token& stop) {
  const absl::Time deadline = SteadyNow() + options.timeout;
  const UniqueFd stopped(eventfd(0, EFD_CLOEXEC));
  if (!stopped.valid()) return ErrnoStatus(errno, "eventfd");
  const std::stop_callback wake(stop, [&] { eventfd_write(stopped.get(), 1); });
  absl::StatusOr<Pipe> pipe = Pipe::Open();
  if (!pipe.ok()) return pipe.status();
  SpawnOptions spawn;
  spawn.command = options.command;
  spawn.search_path = true;
  spawn.environment = options.environment;
  spawn.output_fd = pipe->write_end.get();
  spawn.group = SpawnOptions::Group::kOwn;
  const absl::StatusOr<pid_t> child = Spawn(spawn);
  if (!child.ok()) return child.status();
  pipe->write_end.Reset();

  absl::StatusOr<std::string> output =
      ReadOutput(pipe->read_end.get(), stopped.get(), deadline, options.max_bytes);
  // Whoever closes its output need not end.
  const UniqueFd end_of_child = OpenPidfd(*child);
  if (output.ok() && end_of_child.valid()) {
    const absl::Status ended = AwaitReadable(end_of_child.get(), stopped.get(), deadline);
    if (!ended.ok()) output = ended;
  }
  if (!output.ok()) kill(-*child, SIGKILL);
  const std::optional<ProcessEnd> end = WaitForChild(*child);
  if (output.ok() && end.has_value() && end->code != 0) {
    return absl::FailedPreconditionError(absl::StrCat("it ended with code ", end->code));
  }
  return output;
}

}  // namespace adaptdl::kube
