// Has nodes of a cluster measure the network between them, for "doctor". For one thread.

#ifndef ADAPTDL_CLI_COMMANDS_BANDWIDTH_H_
#define ADAPTDL_CLI_COMMANDS_BANDWIDTH_H_

#include "absl/status/statusor.h"
#include "cli/client.h"
#include "cli/context.h"
#include "cli/support/network_check.h"

namespace adaptdl::cli {

// Runs a job on each of the two nodes, in the context's namespace, and deletes both again. UNAVAILABLE: the one could not reach the
// other; anything else: it could not be tried.
absl::StatusOr<NetworkQuality> MeasurePair(const Context& context, Client& client, const NodePair& pair);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_COMMANDS_BANDWIDTH_H_
