// Processes that outlive their maker, and how to know them again.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_PROCESS_H_
#define ADAPTDL_SERVICES_AUTOSCALER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl::autoscaler {

// A process, safe against pids that are used again.
struct ProcessIdentity {
  pid_t pid = 0;
  // Clock ticks between the machine's start and the process's (field 22 of /proc/<pid>/stat).
  uint64_t start_time = 0;

  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

// "<pid> <start time>\n", the content of a pid file, and back.
std::string FormatIdentity(const ProcessIdentity& identity);
absl::StatusOr<ProcessIdentity> ParseIdentity(absl::string_view text);

// Who has this pid now. NOT_FOUND: nobody, or a zombie.
absl::StatusOr<ProcessIdentity> IdentifyProcess(pid_t pid);

// Whether this very process still runs. Reaps it if it is an ended child of ours.
bool IsAlive(const ProcessIdentity& identity);

// Sends `signal` to this very process. NOT_FOUND: it has ended.
absl::Status SignalProcess(const ProcessIdentity& identity, int signal);

struct SpawnOptions {
  // Program (a path) and arguments.
  std::vector<std::string> command;
  // "NAME=value", complete.
  std::vector<std::string> environment;
  // File that stdout and stderr are appended to.
  std::string log_file;
};

// Starts a program in a session of its own, with nothing open but stdin (empty), stdout and stderr (the log),
// and no signal blocked. `remember` is called before the program begins: only if it returns OK does it begin,
// and if we die on the way it never does. So there is no running program that was not remembered.
absl::StatusOr<ProcessIdentity> SpawnDetached(
    const SpawnOptions& options, const std::function<absl::Status(const ProcessIdentity&)>& remember);

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_PROCESS_H_
