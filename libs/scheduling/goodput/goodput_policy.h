// The product's policy: maximises what the replicas of all jobs together are worth, exactly or with a known
// bound.
//
// A decision has three parts. The valuation says what each size of each job is worth: its speed-up times a
// price that grows the sooner the job can be done, less what a change of allocation costs. The selection
// picks one size per job so that the sum is largest: a multiple-choice knapsack over the units of each pool
// of nodes. The packer turns sizes into nodes, and leaves jobs where they are as far as it can.
// docs/policy.md states the integer programme.
//
// Guarantees: no node is given more than it has; a job has none, or a size within its bounds; a
// non-preemptible job that has replicas keeps them; a job is on nodes of one GPU type. Deterministic;
// immutable; thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_GOODPUT_GOODPUT_POLICY_H_
#define ADAPTDL_LIBS_SCHEDULING_GOODPUT_GOODPUT_POLICY_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "libs/scheduling/goodput/cluster_size.h"
#include "libs/scheduling/goodput/menu.h"
#include "libs/scheduling/goodput/multiple_choice.h"
#include "libs/scheduling/goodput/valuation.h"
#include "libs/scheduling/policy.h"

namespace adaptdl::scheduling {

struct GoodputOptions {
  ValuationOptions valuation;
  MenuOptions menu;
  ChoiceLimits limits;
  CapacityOptions capacity;
};

class GoodputPolicy final : public AllocationPolicy {
 public:
  explicit GoodputPolicy(const GoodputOptions& options) : options_(options) {}

  absl::string_view name() const override { return "goodput"; }

  bool knows_gpu_types() const override { return true; }

  // Nothing is random here: `seed` is not used.
  Decision Decide(const ClusterView& view, uint64_t seed) const override;

 private:
  const GoodputOptions options_;
};

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_GOODPUT_GOODPUT_POLICY_H_
