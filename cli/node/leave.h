// Takes this machine out of its cluster. Not thread-safe.

#ifndef ADAPTDL_CLI_NODE_LEAVE_H_
#define ADAPTDL_CLI_NODE_LEAVE_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/context.h"
#include "cli/node/join.h"

namespace adaptdl::cli {

struct LeaveOptions {
  NodePlaces places;
  // The supervisor is not asked: jobs on this machine start again elsewhere, from their checkpoints.
  bool force = false;
  bool stop = true;
  // Most time for jobs to move.
  absl::Duration timeout = absl::Minutes(10);
};

absl::StatusOr<int> Leave(Context context, const LeaveOptions& options);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_NODE_LEAVE_H_
