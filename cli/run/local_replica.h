// A replica's process on this machine. Not thread-safe.

#ifndef ADAPTDL_CLI_RUN_LOCAL_REPLICA_H_
#define ADAPTDL_CLI_RUN_LOCAL_REPLICA_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/run/outcome.h"
#include "libs/base/unique_fd.h"

namespace adaptdl::cli {

class LocalReplica {
 public:
  // Starts `arguments` (the first is the program, looked up in PATH) with this process's environment and
  // `environment` (an empty value takes the variable away), in a process group of its own and with nothing to
  // read. The process dies with the calling thread.
  static absl::StatusOr<std::unique_ptr<LocalReplica>> Start(
      int rank, const std::vector<std::string>& arguments,
      const std::map<std::string, std::string>& environment);

  // Kills (SIGKILL) what still lives of its process group, and reaps it.
  ~LocalReplica();
  LocalReplica(const LocalReplica&) = delete;
  LocalReplica& operator=(const LocalReplica&) = delete;

  int rank() const { return rank_; }
  // To be polled: becomes readable when the process has ended.
  int end_fd() const { return end_.get(); }
  // Standard output (0) and standard error (1), for reading without blocking. -1: closed.
  int output_fd(int stream) const { return outputs_[stream].get(); }
  void CloseOutput(int stream) { outputs_[stream].Reset(); }

  bool ended() const { return outcome_.has_value(); }
  // Reaps the process, which has ended.
  const ReplicaEnd& Reap();
  // To all of its process group.
  void Signal(int signal) const;

 private:
  LocalReplica(int rank, pid_t pid, UniqueFd end, UniqueFd output, UniqueFd error)
      : rank_(rank), pid_(pid), end_(std::move(end)), outputs_{std::move(output), std::move(error)} {}

  const int rank_;
  const pid_t pid_;
  const UniqueFd end_;
  UniqueFd outputs_[2];
  std::optional<ReplicaEnd> outcome_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_RUN_LOCAL_REPLICA_H_
