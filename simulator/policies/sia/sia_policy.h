// Sia (SOSP'23), the published integer program, as a yardstick for ours: each job gets at most one
// configuration (a GPU type and a number of GPUs), so that the sum over jobs of A + lambda (1 if it gets
// none) is least.
//
//   A = (r g)^p, rounded to two decimals; p = -0.5, lambda = 1.1
//   g = goodput of the configuration, relative to the least of the job's configurations
//   r = 1 for what the job has at present, if it has nothing, and while it is younger than c; else
//       max(age - restarts c, 0) / (age + c), c = time lost by a re-scale
//
// A job that is just being re-scaled keeps what it has. Of equally good choices the solver takes any.
//
// Knows jobs with one GPU per replica, on nodes whose other resources suffice for a replica on each GPU;
// others stay as they are, and the reason says so. Knows no quotas, weights or priorities.
//
// Immutable; thread-safe.

#ifndef ADAPTDL_SIMULATOR_POLICIES_SIA_SIA_POLICY_H_
#define ADAPTDL_SIMULATOR_POLICIES_SIA_SIA_POLICY_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "libs/scheduling/policy.h"

namespace adaptdl::simulator::sia {

struct SiaOptions {
  // Exponent of the goodputs; less than 0. The closer to 0, the less fair.
  double power = -0.5;
  // What a job costs that gets nothing; greater than 0.
  double idle_cost = 1.1;
};

class SiaPolicy final : public scheduling::AllocationPolicy {
 public:
  explicit SiaPolicy(const SiaOptions& options) : options_(options) {}

  absl::string_view name() const override { return "sia"; }
  bool knows_gpu_types() const override { return true; }

  // Nothing is random here: `seed` is not used.
  scheduling::Decision Decide(const scheduling::ClusterView& view, uint64_t seed) const override;

 private:
  const SiaOptions options_;
};

}  // namespace adaptdl::simulator::sia

#endif  // ADAPTDL_SIMULATOR_POLICIES_SIA_SIA_POLICY_H_
