// Why a job has the replicas that it has, as text for people. Thread-safe.

#ifndef ADAPTDL_CLI_EXPLANATION_H_
#define ADAPTDL_CLI_EXPLANATION_H_

#include <string>
#include <vector>

#include "adaptdl/v1/job.pb.h"
#include "adaptdl/v1/node_pool_service.pb.h"
#include "adaptdl/v1/quota_service.pb.h"

namespace adaptdl::cli {

// What keeps the job waiting or small, and what could be done about it, one thing each: that it is held, what the allocator
// says of its last decision, what it still waits for, its next attempt, its namespace's bound, pools without nodes. Empty:
// nothing is known, or the job has ended well. `quotas`: of namespaces; the job's need not be there.
std::vector<std::string> WhyOf(const v1::Job& job, const v1::GetNodePoolsResponse& pools,
                               const v1::ListQuotasResponse& quotas);

// Phase, replicas with their nodes, what the allocator says of its last decision, and which pools of `pools` get no nodes
// for it.
std::string ExplainJob(const v1::Job& job, const v1::GetNodePoolsResponse& pools);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_EXPLANATION_H_
