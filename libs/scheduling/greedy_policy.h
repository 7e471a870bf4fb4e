// The greedy policy: every job its minimum first, in order of submission; then replicas one by one to whoever
// gains most speed-up from the next; on as few nodes as possible; and nothing moves unless that pays.
//
// How it decides: it builds an allocation from nothing, in which each job is drawn to where it is at present,
// takes back the changes that hardly gain, and compares the result with the present allocation. It replaces
// the present one if a waiting job gets its start, if something must change (a node drains or is gone), or if
// the sum of the speed-ups grows by more than the hysteresis charged for each job that moves. This is
// repeated until nothing changes, so that deciding again on the same cluster changes nothing.
//
// Guarantees: no node is given more than it has; a job has none or between min_replicas and max_replicas
// replicas; a non-preemptible job that has replicas keeps them. Immutable; thread-safe.

#ifndef ADAPTDL_LIBS_SCHEDULING_GREEDY_POLICY_H_
#define ADAPTDL_LIBS_SCHEDULING_GREEDY_POLICY_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "libs/scheduling/capacity.h"
#include "libs/scheduling/growth.h"
#include "libs/scheduling/policy.h"

namespace adaptdl::scheduling {

struct GreedyOptions {
  GrowthOptions growth;
  CapacityOptions capacity;
};

class GreedyPolicy final : public AllocationPolicy {
 public:
  explicit GreedyPolicy(const GreedyOptions& options) : options_(options) {}

  absl::string_view name() const override { return "greedy"; }

  // Nothing is random here: `seed` is not used.
  Decision Decide(const ClusterView& view, uint64_t seed) const override;

 private:
  const GreedyOptions options_;
};

}  // namespace adaptdl::scheduling

#endif  // ADAPTDL_LIBS_SCHEDULING_GREEDY_POLICY_H_
