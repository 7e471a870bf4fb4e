// All about a job, as text for people. Thread-safe.

#ifndef ADAPTDL_CLI_DESCRIPTION_H_
#define ADAPTDL_CLI_DESCRIPTION_H_

#include <string>

#include "absl/time/time.h"
#include "adaptdl/v1/job.pb.h"
#include "adaptdl/v1/job_service.pb.h"
#include "adaptdl/v1/node_pool_service.pb.h"

namespace adaptdl::cli {

// Spec, status, replicas, progress and hints of `job`, then `events`, its latest.
// `pools`: for the currency of its cost, and what it waits for.
std::string DescribeJob(const v1::Job& job, const v1::ListEventsResponse& events,
                        const v1::GetNodePoolsResponse& pools, absl::Time now, bool colours);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_DESCRIPTION_H_
