// A replica's process on this machine. Not thread-safe.

#ifndef ADAPTDL_CLI_RUN_LOCAL_REPLICA_H_
#define ADAPTDL_CLI_RUN_LOCAL_REPLICA_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/run/outcome.h"

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
  int end_fd() const { return end_fd_; }
  // Standard output (0) and standard error (1), for reading without blocking. -1: closed.
  int output_fd(int stream) const { return output_fds_[stream]; }
  void CloseOutput(int stream);

  bool ended() const { return end_.has_value(); }
  // Reaps the process, which has ended.
  const ReplicaEnd& Reap();
  // To all of its process group.
  void Signal(int signal) const;

 private:
  LocalReplica(int rank, pid_t pid, int end_fd, int output_fd, int error_fd)
      : rank_(rank), pid_(pid), end_fd_(end_fd), output_fds_{output_fd, error_fd} {}

  const int rank_;
  const pid_t pid_;
  const int end_fd_;
  int output_fds_[2];
  std::optional<ReplicaEnd> end_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_RUN_LOCAL_REPLICA_H_
