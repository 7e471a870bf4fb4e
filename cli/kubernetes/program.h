// Programs as children of a command, which end with it.
//
// Plain functions; thread-safe. Children end with the thread that started them.

#ifndef ADAPTDL_CLI_KUBERNETES_PROGRAM_H_
#define ADAPTDL_CLI_KUBERNETES_PROGRAM_H_

#include <sys/types.h>

#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl::cli {

// Starts a program of PATH, or at this path. Descriptors: its standard output and error; -1: ours. NOT_FOUND: it is not there.
absl::StatusOr<pid_t> StartProgram(const std::vector<std::string>& command, int output_fd, int error_fd);

// Waits for a child and reaps it; kills it when a stop is requested (CANCELLED). ABORTED: it has failed. `name`: for errors.
absl::Status AwaitProgram(absl::string_view name, pid_t child, const std::stop_token& stop);

// Runs it to its end; what it says is on our standard error.
absl::Status RunToEnd(const std::vector<std::string>& command, const std::stop_token& stop = {});

// What it writes, up to 1 MiB. ABORTED: it has failed.
absl::StatusOr<std::string> OutputOfProgram(const std::vector<std::string>& command,
                                            const std::stop_token& stop = {});

// Whether there is a program of this name in PATH, or at this path.
bool IsProgramThere(const std::string& name);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_KUBERNETES_PROGRAM_H_
