// The fit of the throughput model to measured step times.
//
//   absl::StatusOr<PerfParams> params = FitPerfParams(measurements);
//
// Pure and deterministic; thread-safe. A fit takes a tenth of a millisecond for ten measurements and a few
// for a thousand: keep it off training threads all the same.

#ifndef ADAPTDL_LIBS_GOODPUT_FIT_H_
#define ADAPTDL_LIBS_GOODPUT_FIT_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libs/goodput/model.h"

namespace adaptdl::goodput {

// Mean step times of one configuration. Times are in [1e-9, 1e6] s, the weight is in [1e-100, 1e100].
struct Measurement {
  int nodes = 1;
  int replicas = 1;
  int64_t atomic_batch_size = 1;
  // Time of a micro-step without gradient exchange, in seconds.
  double accum_time = 0;
  // Time of a micro-step with gradient exchange, in seconds.
  double optim_time = 0;
  // How much the measurement counts, relative to the others.
  double weight = 1;
};

// The weight of what was measured then, if measurements count half as much after every half-life: a job's
// speed changes with its neighbours, its data and its clock rates. At most 1, also for times to come, and at
// least 1e-6: old news of a configuration are better than none. REQUIRES: half_life > 0.
double RecencyWeight(absl::Time measured, absl::Time now, absl::Duration half_life);

// In the order of the fields of PerfParams.
using PerfGradient = std::array<double, 7>;

// What the fit minimises: the root mean squares of the errors of the logarithms of both times, plus
// 1e-3 (gamma - 1)^2 + 1e-2 ((beta_n / alpha_n)^2 + (beta_r / alpha_r)^2).
// `gradient` may be null. REQUIRES: all parameters and times are greater than 0.
double FitLoss(const PerfParams& params, absl::Span<const Measurement> measurements, PerfGradient* gradient);

// The parameters with the least loss. What the measurements can't tell is fixed (AdaptDL's rules):
//   one atomic batch size only: half of the mean compute time is alpha_c;
//   never on several nodes: the network between nodes is a tenth slower than that within one;
//   never several replicas on one node: the network within a node costs nothing;
//   never more than two replicas: the network's time does not depend on the number of replicas.
// INVALID_ARGUMENT: no measurement, or one that is not plausible: its field is named.
absl::StatusOr<PerfParams> FitPerfParams(absl::Span<const Measurement> measurements);

}  // namespace adaptdl::goodput

#endif  // ADAPTDL_LIBS_GOODPUT_FIT_H_
