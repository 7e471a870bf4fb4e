// Jobs, nodes and events as tables. Plain functions, thread-safe.

#ifndef ADAPTDL_CLI_JOB_TABLE_H_
#define ADAPTDL_CLI_JOB_TABLE_H_

#include <string>

#include "absl/time/time.h"
#include "adaptdl/v1/job_service.pb.h"
#include "adaptdl/v1/node_service.pb.h"
#include "cli/table.h"

namespace adaptdl::cli {

struct JobTableOptions {
  // NAMESPACE in front.
  bool with_namespace = false;
  // Also how far jobs are, how they train, what they have cost, and where they run.
  bool wide = false;
};

// NAME STATUS START(UTC) RUNTIME REPLICAS RESTARTS ETA; where there is little room, these give way.
Table JobTable(const v1::ListJobsResponse& jobs, JobTableOptions options, absl::Time now);

// NAME STATUS REPLICAS CPU MEMORY GPUS AGE LABELS; CPU, MEMORY and GPUS as "used/offered". `wide`: also how much of each
// machine is in use, by whomever.
Table NodeTable(const v1::ListNodesResponse& nodes, bool wide, absl::Time now);

// What is wrong with nodes, to stand below their table: a blank line and a line for each. Empty: nothing.
std::string NodeProblems(const v1::ListNodesResponse& nodes);

// RANK NODE STATE STARTED REPLICA MESSAGE.
Table ReplicaTable(const v1::JobStatus& status);

// TIME(UTC) TYPE REASON JOB GROUP MESSAGE; JOB is left out when `with_job` is not set.
Table EventTable(const v1::ListEventsResponse& events, bool with_job);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_JOB_TABLE_H_
