// Cancelling, shared by "cancel" and "delete --cancel". Not thread-safe.

#ifndef ADAPTDL_CLI_COMMANDS_CANCEL_H_
#define ADAPTDL_CLI_COMMANDS_CANCEL_H_

#include "absl/status/statusor.h"
#include "adaptdl/v1/job.pb.h"
#include "cli/client.h"
#include "cli/context.h"

namespace adaptdl::cli {

// Asks the job to stop for good, and returns it as it is then.
absl::StatusOr<v1::Job> CancelJob(Client& client, const JobReference& reference);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_COMMANDS_CANCEL_H_
