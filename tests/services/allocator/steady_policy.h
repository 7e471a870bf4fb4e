// A policy that says the same each time: what is sent twice is sent by the allocator.

#ifndef ADAPTDL_TESTS_SERVICES_ALLOCATOR_STEADY_POLICY_H_
#define ADAPTDL_TESTS_SERVICES_ALLOCATOR_STEADY_POLICY_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "libs/scheduling/policy.h"

namespace adaptdl::allocator {

// One replica of each job, all on the first node.
class SteadyPolicy final : public scheduling::AllocationPolicy {
 public:
  absl::string_view name() const override { return "steady"; }
  scheduling::Decision Decide(const scheduling::ClusterView& view, uint64_t /*seed*/) const override {
    scheduling::Decision decision;
    for (const scheduling::JobInfo& job : view.jobs) {
      scheduling::JobDecision& decided = decision.jobs.emplace_back();
      decided.key = job.key;
      decided.allocation = {view.nodes.at(0).id};
      decided.reason = "each job gets one replica";
    }
    return decision;
  }
};

}  // namespace adaptdl::allocator

#endif  // ADAPTDL_TESTS_SERVICES_ALLOCATOR_STEADY_POLICY_H_
