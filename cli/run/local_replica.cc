#include "cli/run/local_replica.h"

#include <signal.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/base/process/environment.h"
#include "libs/base/process/pipe.h"
#include "libs/base/process/spawn.h"
#include "libs/base/process/wait.h"

namespace adaptdl::cli {

absl::StatusOr<std::unique_ptr<LocalReplica>> LocalReplica::Start(
    int rank, const std::vector<std::string>& arguments,
    const std::map<std::string, std::string>& environment) {
  absl::StatusOr<Pipe> output = Pipe::Open();
  if (!output.ok()) return output.status();
  absl::StatusOr<Pipe> error = Pipe::Open();
  if (!error.ok()) return error.status();
  SpawnOptions options;
  options.command = arguments;
  options.search_path = true;
  options.environment = OwnEnvironmentWith(environment);
  options.output_fd = output->write_end.get();
  options.error_fd = error->write_end.get();
  options.group = SpawnOptions::Group::kOwn;
  // The launcher ignores it for itself.
  options.heeded_signals = {SIGPIPE};
  options.death_signal = SIGKILL;
  const absl::StatusOr<pid_t> pid = Spawn(options);
  if (!pid.ok()) return pid.status();
  for (const Pipe* pipe : {&*output, &*error}) {
    if (absl::Status status = SetNonBlocking(pipe->read_end.get()); !status.ok()) return status;
  }
  return std::unique_ptr<LocalReplica>(
      new LocalReplica(rank, *pid, OpenPidfd(*pid), std::move(output->read_end), std::move(error->read_end)));
}

LocalReplica::~LocalReplica() {
  Signal(SIGKILL);
  if (!ended()) Reap();
}

const ReplicaEnd& LocalReplica::Reap() {
  const ProcessEnd end = WaitForChild(pid_).value_or(ProcessEnd{});
  return outcome_.emplace(ReplicaEnd{.rank = rank_, .code = end.code, .signal = end.signal});
}

void LocalReplica::Signal(int signal) const { kill(-pid_, signal); }

}  // namespace adaptdl::cli
