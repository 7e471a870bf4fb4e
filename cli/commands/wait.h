// Waiting for jobs, shared by "wait" and "submit". Not thread-safe.

#ifndef ADAPTDL_CLI_COMMANDS_WAIT_H_
#define ADAPTDL_CLI_COMMANDS_WAIT_H_

#include <stop_token>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/client.h"
#include "cli/context.h"

namespace adaptdl::cli {

// Waits until all have finished, says how each ended, and returns the exit code.
absl::StatusOr<int> WaitForJobs(const Context& context, Client& client,
                                const std::vector<JobReference>& references, absl::Time deadline);

// Says on standard error, whenever it changes, why the job has no replicas, until it has finished or `stop` is requested.
void TellWhatItWaitsFor(Client& client, const JobReference& reference, const std::stop_token& stop);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_COMMANDS_WAIT_H_
