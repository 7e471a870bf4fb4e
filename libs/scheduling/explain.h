// Why a decision is as it is, in words. The words depend on the situation alone, not on how it came about, so
// that an unchanged situation is explained by the same words. Pure; thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_EXPLAIN_H_
#define ADAPTDL_LIBS_SCHEDULING_EXPLAIN_H_

#include <string>

#include "libs/scheduling/cluster_state.h"
#include "libs/scheduling/growth.h"
#include "libs/scheduling/policy.h"

namespace adaptdl::scheduling {

// What one replica of the job needs that no node offers: "one replica needs 4000m CPU; the largest node
// offers 1000m CPU". Empty if some node could hold one, or there is no node.
std::string WhyUnschedulable(const JobInfo& job, const ClusterView& view);

// Why the job has no replicas. `behind_earlier`: it was held back for a job that was submitted earlier.
std::string WhyWaiting(int job, const ClusterState& state, bool behind_earlier);

// Why the job has the replicas that it has, and no more.
std::string WhyThisSize(int job, const ClusterState& state, bool pinned, const GrowthOptions& options);

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_EXPLAIN_H_
