// Allocation policies by name, for the simulator: the product's, and published ones to compare with. Plain
// values; thread-safe.

#ifndef ADAPTDL_SIMULATOR_POLICIES_POLICIES_H_
#define ADAPTDL_SIMULATOR_POLICIES_POLICIES_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "libs/scheduling/policy.h"

namespace adaptdl::simulator {

// By name: what makes the policy, with its default settings.
using Policies = std::map<std::string, std::function<std::unique_ptr<scheduling::AllocationPolicy>()>>;

// Those that need no solver. all_policies.h has the others too.
Policies PoliciesWithoutSolver();

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_POLICIES_POLICIES_H_
