// What the supervisor remembers of its jobs and nodes, as the simulator's history.
//
// Plain functions on values, thread-safe.

#ifndef ADAPTDL_CLI_HISTORY_H_
#define ADAPTDL_CLI_HISTORY_H_

#include "absl/time/time.h"
#include "adaptdl/v1/job_service.pb.h"
#include "adaptdl/v1/node_service.pb.h"
#include "simulator/history/history.h"

namespace adaptdl::cli {

// The nodes that take replicas, and the jobs that were submitted at or after `since`. Jobs that have not
// ended count what they held until `now`. A job whose hints do not say on which GPU type they were measured
// is taken to have run on that of its last replicas, or else on the cluster's most frequent one.
simulator::History ToHistory(const v1::ListJobsResponse& jobs, const v1::ListEventsResponse& events,
                             const v1::ListNodesResponse& nodes, absl::Time since, absl::Time now);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_HISTORY_H_
