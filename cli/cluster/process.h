// Processes of a local cluster: started to outlive the command, found again by pid files, stopped surely.
//
// A process is known by its id and its start time, so that a number used again is never mistaken for it.
// Thread-safe.

#ifndef ADAPTDL_CLI_CLUSTER_PROCESS_H_
#define ADAPTDL_CLI_CLUSTER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace adaptdl::cli {

struct ProcessId {
  pid_t pid = 0;
  // In clock ticks since the machine's start, as /proc/<pid>/stat has it.
  uint64_t start_time = 0;
};

// Whether the process lives (a zombie does not).
bool IsAlive(const ProcessId& process);

// Files that hold "<pid> <start time>". NOT_FOUND: no such file, or nothing of the kind in it.
absl::StatusOr<ProcessId> ReadPidFile(const std::string& path);
absl::Status WritePidFile(const std::string& path, const ProcessId& process);

// Starts `arguments` (the first is the program's path) in a session of its own, in the folder `folder`, with
// its output appended to `log` and nothing else inherited but the environment.
absl::StatusOr<ProcessId> StartDaemon(const std::vector<std::string>& arguments, const std::string& folder,
                                      const std::string& log);

// Asks all to end (SIGTERM), and ends those that live after `grace` (SIGKILL). Returns when none lives; false
// if one withstood even that for some seconds.
bool StopProcesses(const std::vector<ProcessId>& processes, absl::Duration grace);

// Processes of this user whose program is called `program` and whose working folder is `folder` or below.
std::vector<ProcessId> FindProcesses(const std::string& program, const std::string& folder);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_CLUSTER_PROCESS_H_
