// The goodput model: how fast a job trains (throughput), how much each sample is worth (statistical
// efficiency), and the product of both (goodput), for any number of nodes, replicas and batch size.
//
//   GoodputFunction goodput(perf, grad, /*init_batch_size=*/128);
//   double rate = goodput.Evaluate({.nodes = 2, .replicas = 4}, {.atomic_batch_size = 32});
//
// Symbols, as in the literature: N nodes, R replicas, b atomic batch size (samples per replica and
// micro-step), s accumulation steps (micro-steps beyond the first), B0 the initial total batch size,
// B = R * b * (s + 1) the total batch size. Times are in seconds.
//
// Plain values without ownership; everything here is thread-safe.

#ifndef ADAPTDL_LIBS_GOODPUT_MODEL_H_
#define ADAPTDL_LIBS_GOODPUT_MODEL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adaptdl::goodput {

// Larger batches, in samples, are no batch sizes. Keeps products of sizes and replicas within 64 bits.
inline constexpr int64_t kLargestBatchSize = int64_t{1} << 40;

// A micro-step or an exchange that takes longer (11 days), or a micro-step that takes less, is no measurement.
// Keeps throughputs finite.
inline constexpr double kLongestTime = 1e6;
inline constexpr double kShortestTime = 1e-9;

// Throughput model. Every field is finite and at least 0; gamma is in [1, 10].
struct PerfParams {
  // Compute time of one micro-step: alpha_c + beta_c * b.
  double alpha_c = 0;
  double beta_c = 0;
  // Network time with replicas on several nodes: alpha_n + beta_n * (R - 2).
  double alpha_n = 0;
  double beta_n = 0;
  // Network time with all replicas on one node: alpha_r + beta_r * (R - 2).
  double alpha_r = 0;
  double beta_r = 0;
  // Overlap of computation and communication: 1 = none, 10 = nearly complete.
  double gamma = 1;
};

// Gradient statistics at the initial total batch size. The default means perfect scaling: nothing is known
// yet.
struct GradParams {
  // Squared norm of the true gradient.
  double sqr = 0;
  // Trace of the covariance of the gradient.
  double var = 1;
};

// Where replicas run: 1 <= nodes <= replicas.
struct Topology {
  int nodes = 1;
  int replicas = 1;
};

// How a replica steps.
struct BatchConfig {
  int64_t atomic_batch_size = 1;
  int64_t accumulation_steps = 0;
};

// OK if the parameters can be used; else INVALID_ARGUMENT that names the field and its value. For values that
// come from outside.
absl::Status Validate(const PerfParams& params);
absl::Status Validate(const GradParams& params);

// The model on a GPU type that was not measured yet, from that on a known one. `throughput_ratio`: the
// throughput of one GPU of the new type by that of one of the known type at the same batch size; or the
// inverse ratio of their compute times. Only compute times change: the network is the nodes', not the GPUs'.
// (Sia, SOSP'23, scales the whole goodput, which is the same for a single replica.)
// INVALID_ARGUMENT: the ratio is not a finite number greater than 0, or no plausible model results.
absl::StatusOr<PerfParams> ScaleToGpuType(const PerfParams& known, double throughput_ratio);

// Compute time of one micro-step. `atomic_batch_size` may be any real number.
double AccumTime(const PerfParams& params, double atomic_batch_size);

// Time of one gradient exchange. Never 0, so that it has a logarithm.
double NetworkTime(const PerfParams& params, Topology topology);

// Time of the micro-step that ends with the optimizer's step: compute and network, overlapped by gamma.
double OptimTime(const PerfParams& params, Topology topology, double atomic_batch_size);

class GoodputFunction {
 public:
  // REQUIRES: both parameter sets pass Validate(), init_batch_size >= 1.
  GoodputFunction(const PerfParams& perf, const GradParams& grad, int64_t init_batch_size)
      : perf_(perf), grad_(grad), init_batch_size_(init_batch_size) {}

  // Samples per second.
  double Throughput(Topology topology, BatchConfig batch) const;

  // Worth of one sample at this total batch size, relative to one at the initial batch size: in (0, 1] from
  // there on.
  double Efficiency(double total_batch_size) const;

  // Progress that an optimizer step makes, relative to one at the initial batch size (AdaScale's gain).
  double Gain(double total_batch_size) const;

  // Throughput times efficiency: samples of the initial batch size per second.
  double Evaluate(Topology topology, BatchConfig batch) const;

  const PerfParams& perf() const { return perf_; }
  const GradParams& grad() const { return grad_; }
  int64_t init_batch_size() const { return init_batch_size_; }

 private:
  PerfParams perf_;
  GradParams grad_;
  int64_t init_batch_size_;
};

}  // namespace adaptdl::goodput

#endif  // ADAPTDL_LIBS_GOODPUT_MODEL_H_
