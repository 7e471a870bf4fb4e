// Pollux, the published genetic policy, as a yardstick for ours: same objectives, operators and parameters.
//
//   PolluxPolicy policy({.search = {.variant = Variant::kMaster}});
//
// What differs from the publications is what was plainly wrong there (docs/policies-yardsticks.md lists it):
// the present allocation is always among the first generation, on master so are equal shares; room that a
// refused job does not take goes to the next; jobs that can't be moved are left alone; an empty selection
// changes nothing.
//
// Knows one GPU type. On a cluster with several it changes nothing, and every reason says so. Knows no
// quotas, weights or priorities.
//
// Thread-safe. Not immutable: the last population is where the next search starts (guarded by a mutex), so a
// decision depends on those before it. The same sequence of views and seeds gives the same decisions, bit by
// bit; with `warm_start` off each decision depends on its view and seed alone.

#ifndef ADAPTDL_SIMULATOR_POLICIES_POLLUX_POLLUX_POLICY_H_
#define ADAPTDL_SIMULATOR_POLICIES_POLLUX_POLLUX_POLICY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "libs/base/mutex.h"
#include "libs/scheduling/policy.h"
#include "simulator/policies/pollux/search.h"

namespace adaptdl::simulator::pollux {

struct PolluxOptions {
  SearchOptions search;
  // Whether a search starts from the population of the last one.
  bool warm_start = true;
};

// Allocations, and whose rows and columns they have.
struct Population {
  std::vector<std::string> jobs;
  // Real ones. There may be more columns: nodes that could be requested.
  std::vector<std::string> nodes;
  std::vector<State> states;
};

// The same allocations for other jobs and nodes. A new node takes over the column of a requested one, the
// first that is left; what is left of everything else is 0. `columns`: at least the number of nodes.
std::vector<State> Remap(const Population& population, const std::vector<std::string>& jobs,
                         const std::vector<std::string>& nodes, int columns);

class PolluxPolicy final : public scheduling::AllocationPolicy {
 public:
  explicit PolluxPolicy(const PolluxOptions& options) : options_(options) {}

  absl::string_view name() const override {
    return options_.search.variant == Variant::kOsdi ? "pollux" : "pollux-master";
  }

  scheduling::Decision Decide(const scheduling::ClusterView& view, uint64_t seed) const override;

 private:
  const PolluxOptions options_;
  mutable Mutex mutex_;
  mutable Population last_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::simulator::pollux

#endif  // ADAPTDL_SIMULATOR_POLICIES_POLLUX_POLLUX_POLICY_H_
