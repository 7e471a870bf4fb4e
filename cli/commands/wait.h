// Waiting for jobs, shared by "wait" and "submit". Not thread-safe.

#ifndef ADAPTDL_CLI_COMMANDS_WAIT_H_
#define ADAPTDL_CLI_COMMANDS_WAIT_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/context.h"

namespace adaptdl::cli {

// Waits until all have finished, says how each ended, and returns the exit code.
absl::StatusOr<int> WaitForJobs(const Context& context, Client& client,
                                const std::vector<JobReference>& references, absl::Time deadline);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_COMMANDS_WAIT_H_
