#include "simulator/policies/all_policies.h"

#include <memory>

#include "simulator/policies/sia/sia_policy.h"

namespace adaptdl::simulator {

Policies AllPolicies() {
  Policies policies = PoliciesWithoutSolver();
  policies.emplace("sia", [] { return std::make_unique<sia::SiaPolicy>(sia::SiaOptions()); });
  return policies;
}

}  // namespace adaptdl::simulator
