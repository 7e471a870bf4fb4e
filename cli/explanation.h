// Why a job has the replicas that it has, as text for people. Thread-safe.

#ifndef ADAPTDL_CLI_EXPLANATION_H_
#define ADAPTDL_CLI_EXPLANATION_H_

#include <string>

#include "adaptdl/v1/job.pb.h"

namespace adaptdl::cli {

// Phase, replicas with their nodes, and what the allocator says of its last decision.
std::string ExplainJob(const v1::Job& job);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_EXPLANATION_H_
