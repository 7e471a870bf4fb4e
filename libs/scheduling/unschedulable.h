// Why a job can't run at all, in words. Pure; thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_UNSCHEDULABLE_H_
#define ADAPTDL_LIBS_SCHEDULING_UNSCHEDULABLE_H_

#include <string>

#include "libs/scheduling/policy.h"

namespace adaptdl::scheduling {

// What one replica of the job needs that no node offers: "one replica needs 4 CPUs; the largest node
// offers 1 CPU". Empty if some node could hold one, or there is no node.
std::string WhyUnschedulable(const JobInfo& job, const ClusterView& view);

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_UNSCHEDULABLE_H_
