// Replicas of one program on this machine, without a scheduler: started together, followed to their end,
// started again after a failure.
//
//   running ──a replica fails──▶ failing ──5 s──▶ SIGTERM ──30 s──▶ SIGKILL
//      │                                                              ▲
//      └──SIGINT or SIGTERM: passed on──▶ stopping ──second SIGINT────┘
//
// When all replicas have ended, the group's outcome decides: a failed one is started again from its
// checkpoint while restarts are left.
//
// Blocks SIGINT, SIGTERM and SIGHUP in the calling thread, and ignores SIGPIPE in the process. Not
// thread-safe.

#ifndef ADAPTDL_CLI_RUN_LAUNCHER_H_
#define ADAPTDL_CLI_RUN_LAUNCHER_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl::cli {

struct LauncherOptions {
  // The program and its arguments.
  std::vector<std::string> command;
  int replicas = 1;
  // How often a group that failed is started again.
  int max_restarts = 0;
  // Folder of checkpoints. Empty: what $ADAPTDL_CHECKPOINT_PATH says.
  std::string checkpoint;
  // Variables of the program's environment.
  std::map<std::string, std::string> environment;
  // Whether the ranks are coloured, on standard output and standard error.
  bool colours[2] = {false, false};
};

// The environment of a replica, besides the launcher's own. An empty value: the variable is taken away.
std::map<std::string, std::string> ReplicaEnvironment(const LauncherOptions& options, int rank, int port,
                                                      const std::string& token, int restarts);

// Runs the program to its end. Lines of the replicas go to standard output and standard error; `note` gets
// what the launcher has to say. Returns the exit code: 0, 143 when stopped, 130 when a second SIGINT ended
// it, else that of the replica that failed first. A status: the program could not be started.
absl::StatusOr<int> Launch(const LauncherOptions& options,
                           const std::function<void(absl::string_view)>& note);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_RUN_LAUNCHER_H_
