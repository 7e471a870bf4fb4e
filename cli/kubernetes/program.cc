#include "cli/kubernetes/program.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "libs/base/process/pipe.h"
#include "libs/base/process/spawn.h"
#include "libs/base/process/wait.h"

namespace adaptdl::cli {
namespace {

constexpr size_t kMaxOutput = size_t{1} << 20;

}  // namespace

absl::StatusOr<pid_t> StartProgram(const std::vector<std::string>& command, int output_fd, int error_fd) {
  SpawnOptions options;
  options.command = command;
  options.search_path = true;
  options.output_fd = output_fd;
  options.error_fd = error_fd;
  // Ctrl-C is for us; it ends with us.
  options.group = SpawnOptions::Group::kOwn;
  options.heeded_signals = AllSignals();
  options.death_signal = SIGKILL;
  return Spawn(options);
}

absl::Status AwaitProgram(absl::string_view name, pid_t child, const std::stop_token& stop) {
  {
    // Of a group of its own, with all that it has started. Its number is its own until it is reaped, which is after this.
    const std::stop_callback kill_it(stop, [child] { kill(-child, SIGKILL); });
    siginfo_t info;
    while (waitid(P_PID, child, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
    }
  }
  const std::optional<ProcessEnd> end = WaitForChild(child);
  if (stop.stop_requested()) return absl::CancelledError(absl::StrCat(name, " was interrupted"));
  if (end.has_value() && end->code == 0) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(name, " has failed; what it says is above"));
}

absl::Status RunToEnd(const std::vector<std::string>& command, const std::stop_token& stop) {
  const absl::StatusOr<pid_t> child = StartProgram(command, STDERR_FILENO, -1);
  if (!child.ok()) return child.status();
  return AwaitProgram(command.front(), *child, stop);
}

absl::StatusOr<std::string> OutputOfProgram(const std::vector<std::string>& command,
                                            const std::stop_token& stop) {
  absl::StatusOr<Pipe> pipe = Pipe::Open();
  if (!pipe.ok()) return pipe.status();
  const absl::StatusOr<pid_t> child = StartProgram(command, pipe->write_end.get(), -1);
  if (!child.ok()) return child.status();
  pipe->write_end.Reset();
  std::string output;
  {
    const std::stop_callback kill_it(stop, [child = *child] { kill(-child, SIGKILL); });
    char buffer[4096];
    ssize_t size = 0;
    while (output.size() <= kMaxOutput &&
           (size = ReadSome(pipe->read_end.get(), buffer, sizeof(buffer))) > 0) {
      output.append(buffer, size);
    }
  }
  pipe->read_end.Reset();
  if (absl::Status status = AwaitProgram(command.front(), *child, stop); !status.ok()) return status;
  if (output.size() <= kMaxOutput) return output;
  return absl::OutOfRangeError(absl::StrCat(command.front(), " writes more than ", kMaxOutput, " bytes"));
}

bool IsProgramThere(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0;
  const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): nobody changes it
  const std::vector<std::string> folders = absl::StrSplit(path == nullptr ? "" : path, ':');
  for (const std::string& folder : folders) {
    if (access(absl::StrCat(folder, "/", name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace adaptdl::cli
