// No job gets replicas on two nodes that do not reach each other (NodeInfo::unreachable).
//
// Policies decide as if all nodes reached each other, and this takes back what can't be: of two such nodes a
// job leaves the one with fewer of its replicas. What it leaves stays free until the policy is asked again;
// such pairs are rare, and known for minutes. Pure; thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_SEPARATION_H_
#define ADAPTDL_LIBS_SCHEDULING_SEPARATION_H_

#include "libs/scheduling/policy.h"

namespace adaptdl::scheduling {

// `decision` is one for `view`. A job that can't run with what is left gets nothing; one that may not be
// moved keeps what it has.
void Separate(const ClusterView& view, Decision* decision);

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_SEPARATION_H_
