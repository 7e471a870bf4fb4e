// Why a job has the replicas that it has, as text for people. Thread-safe.

#ifndef ADAPTDL_CLI_EXPLANATION_H_
#define ADAPTDL_CLI_EXPLANATION_H_

#include <string>

#include "adaptdl/v1/job.pb.h"
#include "adaptdl/v1/node_pool_service.pb.h"

namespace adaptdl::cli {

// Phase, replicas with their nodes, what the allocator says of its last decision, and which pools of `pools` get no nodes
// for it.
std::string ExplainJob(const v1::Job& job, const v1::GetNodePoolsResponse& pools);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_EXPLANATION_H_
