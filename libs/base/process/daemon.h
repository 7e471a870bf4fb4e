// Starts programs that outlive their maker: in a session of their own, with their output in a file, nothing
// else open, and all signals as they are by default. process_identity.h and pid_file.h know them again.
//
// Thread-safe.

#ifndef ADAPTDL_LIBS_BASE_PROCESS_DAEMON_H_
#define ADAPTDL_LIBS_BASE_PROCESS_DAEMON_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/base/process/process_identity.h"

namespace adaptdl {

struct DaemonOptions {
  // Program (a path) and arguments.
  std::vector<std::string> command;
  // "NAME=value", complete. Nothing: ours.
  std::optional<std::vector<std::string>> environment = std::nullopt;
  // Empty: ours.
  std::string working_directory = {};
  // File that its output is appended to.
  std::string log_file;
};

// `remember`, unless null, is called before the program begins: only if it returns OK does it begin, and if
// we die on the way it never does.
absl::StatusOr<ProcessIdentity> StartDaemon(
    const DaemonOptions& options,
    const std::function<absl::Status(const ProcessIdentity&)>& remember = nullptr);

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_PROCESS_DAEMON_H_
