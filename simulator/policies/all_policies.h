// Every allocation policy that the simulator knows. A target of its own: it links the solver of one of them.

#ifndef ADAPTDL_SIMULATOR_POLICIES_ALL_POLICIES_H_
#define ADAPTDL_SIMULATOR_POLICIES_ALL_POLICIES_H_

#include "simulator/policies/policies.h"

namespace adaptdl::simulator {

// Thread-safe.
Policies AllPolicies();

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_POLICIES_ALL_POLICIES_H_
