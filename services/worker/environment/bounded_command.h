// Runs a program to its end, within bounds of time: its output is handed on, and the end of it kept.
//
// Thread-safe; for programs that reap their own children.

#ifndef ADAPTDL_SERVICES_WORKER_ENVIRONMENT_BOUNDED_COMMAND_H_
#define ADAPTDL_SERVICES_WORKER_ENVIRONMENT_BOUNDED_COMMAND_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"

namespace adaptdl::worker {

struct BoundedCommand {
  // Program and arguments; the program is looked for in PATH.
  std::vector<std::string> command;
  // What errors call it.
  std::string name;
  // Changes of our environment, by name. An empty value takes the variable away.
  std::map<std::string, std::string> variables = {};
  // Absolute. Empty: ours.
  std::string working_directory = {};
  // Steady time at which it is killed with all that is in its process group.
  absl::Time deadline = absl::InfiniteFuture();
  // Descriptor that its output is handed on to. -1: nowhere.
  int output_fd = -1;
  // Bytes that are handed on at most; the rest is left out, and counted in the text that says so.
  int64_t max_output_bytes = int64_t{256} << 10;
  // Asked once in a few seconds; an error ends the program, and is what RunBounded() returns.
  std::function<absl::Status()> check = nullptr;
};

// The last bytes of what it wrote to its standard output and error (at most 4 KiB), once it has ended with 0.
// FAILED_PRECONDITION with the last lines that it wrote: it has failed. DEADLINE_EXCEEDED: it was killed.
// NOT_FOUND, PERMISSION_DENIED and so on: it could not be started.
absl::StatusOr<std::string> RunBounded(const BoundedCommand& command, const Clock& clock);

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_ENVIRONMENT_BOUNDED_COMMAND_H_
