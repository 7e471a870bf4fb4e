#include "libs/base/process/daemon.h"

#include <fcntl.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "libs/base/process/spawn.h"
#include "libs/base/unique_fd.h"

namespace adaptdl {

absl::StatusOr<ProcessIdentity> StartDaemon(
    const DaemonOptions& options, const std::function<absl::Status(const ProcessIdentity&)>& remember) {
  const UniqueFd log(open(options.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!log.valid()) return ErrnoStatus(errno, absl::StrCat("open ", options.log_file));
  ProcessIdentity identity;
  SpawnOptions spawn;
  spawn.command = options.command;
  spawn.environment = options.environment;
  spawn.working_directory = options.working_directory;
  spawn.output_fd = spawn.error_fd = log.get();
  spawn.group = SpawnOptions::Group::kSession;
  spawn.heeded_signals = AllSignals();
  spawn.before_start = [&](pid_t pid) -> absl::Status {
    const absl::StatusOr<ProcessIdentity> started = IdentifyProcess(pid);
    if (!started.ok()) return started.status();
    identity = *started;
    return remember == nullptr ? absl::OkStatus() : remember(identity);
  };
  const absl::StatusOr<pid_t> pid = Spawn(spawn);
  if (!pid.ok()) return pid.status();
  return identity;
}

}  // namespace adaptdl
