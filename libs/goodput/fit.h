// The fit of the throughput model to measured step times.
//
//   absl::StatusOr<PerfParams> params = FitPerfParams(measurements);
//
// Pure and deterministic; thread-safe. A fit of a thousand measurements takes milliseconds: keep it off
// training threads all the same.

#ifndef ADAPTDL_LIBS_GOODPUT_FIT_H_
#define ADAPTDL_LIBS_GOODPUT_FIT_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libs/goodput/model.h"

namespace adaptdl::goodput {

// Mean step times of one configuration.
struct Measurement {
  int nodes = 1;
  int replicas = 1;
  int64_t atomic_batch_size = 1;
  // Time of a micro-step without gradient exchange, in seconds.
  double accum_time = 0;
  // Time of a micro-step with gradient exchange, in seconds.
  double optim_time = 0;
  // How much the measurement counts, relative to the others. Greater than 0.
  double weight = 1;
};

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
// INVALID_ARGUMENT: no measurement, or one that is not plausible, named.
absl::StatusOr<PerfParams> FitPerfParams(absl::Span<const Measurement> measurements);

}  // namespace adaptdl::goodput

#endif  // ADAPTDL_LIBS_GOODPUT_FIT_H_
