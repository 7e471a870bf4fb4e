#include "cli/cluster/process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/file.h"

namespace adaptdl::cli {
namespace {

constexpr absl::Duration kPollPeriod = absl::Milliseconds(20);
// SIGKILL takes effect at once but for a process inside the kernel.
constexpr absl::Duration kKillGrace = absl::Seconds(5);

struct ProcessStat {
  char state = '?';
  uint64_t start_time = 0;
};

std::optional<ProcessStat> ReadStat(pid_t pid) {
  const absl::StatusOr<std::string> text = ReadWholeFile(absl::StrCat("/proc/", pid, "/stat"), 1 << 16);
  if (!text.ok()) return std::nullopt;
  // The second field is the program's name in parentheses, which may hold anything; fields after it are
  // counted from the state, the third.
  const size_t name_end = text->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  const std::vector<std::string> fields =
      absl::StrSplit(absl::string_view(*text).substr(name_end + 1), ' ', absl::SkipEmpty());
  constexpr size_t kStartTime = 22 - 3;
  ProcessStat stat;
  if (fields.size() <= kStartTime || !absl::SimpleAtoi(fields[kStartTime], &stat.start_time)) {
    return std::nullopt;
  }
  stat.state = fields[0][0];
  return stat;
}

// Reaps the process if it is our child, so that it is no zombie.
void Reap(pid_t pid) { waitpid(pid, nullptr, WNOHANG); }

bool AnyAlive(const std::vector<ProcessId>& processes) {
  bool any = false;
  for (const ProcessId& process : processes) any = IsAlive(process) || any;
  return any;
}

void Signal(const std::vector<ProcessId>& processes, int signal) {
  for (const ProcessId& process : processes) {
    if (IsAlive(process)) kill(process.pid, signal);
  }
}

bool WaitForEnd(const std::vector<ProcessId>& processes, absl::Duration timeout) {
  const absl::Time deadline = SteadyNow() + timeout;
  while (AnyAlive(processes)) {
    if (SteadyNow() >= deadline) return false;
    absl::SleepFor(kPollPeriod);
  }
  return true;
}

}  // namespace

bool IsAlive(const ProcessId& process) {
  Reap(process.pid);
  const std::optional<ProcessStat> stat = ReadStat(process.pid);
  return stat.has_value() && stat->start_time == process.start_time && stat->state != 'Z' &&
         stat->state != 'X';
}

absl::StatusOr<ProcessId> ReadPidFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path, 1 << 10);
  if (!text.ok()) return text.status();
  const std::vector<std::string> parts = absl::StrSplit(*text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  ProcessId process;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &process.pid) || process.pid <= 0 ||
      !absl::SimpleAtoi(parts[1], &process.start_time)) {
    return absl::NotFoundError(absl::StrCat(path, " holds no process id and start time"));
  }
  return process;
}

absl::Status WritePidFile(const std::string& path, const ProcessId& process) {
  return WriteFileAtomically(path, absl::StrCat(process.pid, " ", process.start_time, "\n"));
}

absl::StatusOr<ProcessId> StartDaemon(const std::vector<std::string>& arguments, const std::string& folder,
                                      const std::string& log) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  // What the caller has open (a lock, a pipe that somebody reads to its end) must not live on in a daemon.
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  sigfillset(&signals);
  posix_spawnattr_setsigdefault(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ProcessId process;
  const int error = posix_spawn(&process.pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return ErrnoStatus(error, absl::StrCat("start ", arguments[0]));
  const std::optional<ProcessStat> stat = ReadStat(process.pid);
  if (!stat.has_value()) return absl::InternalError(absl::StrCat(arguments[0], " ended at once"));
  process.start_time = stat->start_time;
  return process;
}

bool StopProcesses(const std::vector<ProcessId>& processes, absl::Duration grace) {
  Signal(processes, SIGTERM);
  if (WaitForEnd(processes, grace)) return true;
  Signal(processes, SIGKILL);
  return WaitForEnd(processes, kKillGrace);
}

std::vector<ProcessId> FindProcesses(const std::string& program, const std::string& folder) {
  std::vector<ProcessId> found;
  std::error_code error;
  const std::string inside = absl::StrCat(folder, "/");
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    std::string exe = std::filesystem::read_symlink(entry.path() / "exe", error).string();
    if (error) continue;
    // A program that was built anew since is shown as deleted.
    exe = std::string(absl::StripSuffix(exe, " (deleted)"));
    if (std::filesystem::path(exe).filename() != program) continue;
    const std::string cwd = std::filesystem::read_symlink(entry.path() / "cwd", error).string();
    if (error || (cwd != folder && !absl::StartsWith(cwd, inside))) continue;
    const std::optional<ProcessStat> stat = ReadStat(pid);
    if (stat.has_value()) found.push_back({pid, stat->start_time});
  }
  return found;
}

}  // namespace adaptdl::cli
