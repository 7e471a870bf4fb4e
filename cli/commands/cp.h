// Copying files of a job whose storage is claims of Kubernetes. For one thread.

#ifndef ADAPTDL_CLI_COMMANDS_CP_H_
#define ADAPTDL_CLI_COMMANDS_CP_H_

#include <string>

#include "absl/status/statusor.h"
#include "cli/context.h"

namespace adaptdl::cli {

struct CopyOptions {
  // "JOB:PATH".
  std::string from;
  std::string to;
  std::string helper_image = "busybox:1.36";
};

// By a pod of its own, which is deleted again, also when the command is interrupted. The exit code.
absl::StatusOr<int> CopyFromClaims(const Context& context, const CopyOptions& options);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_COMMANDS_CP_H_
