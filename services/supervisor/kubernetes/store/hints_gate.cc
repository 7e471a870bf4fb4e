#include "services/supervisor/kubernetes/store/hints_gate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "libs/goodput/model.h"
#include "libs/hints/hints.h"

namespace adaptdl::supervisor {
namespace {

bool Moved(double before, double now) {
  return std::abs(now - before) > kHintsChange * std::max(std::abs(before), std::abs(now));
}

// Samples per second, at the batch size that the user chose, with all replicas on one node or each on its own: both kinds
// of network are in it.
double Throughput(const v1::Hints& hints, int replicas, bool on_one_node) {
  const goodput::GoodputFunction model(hints::ToPerfParams(hints.perf_params()), {},
                                       std::max<int64_t>(1, hints.init_batch_size()));
  const int64_t size = std::max<int64_t>(1, hints.init_batch_size() / replicas);
  return model.Throughput({.nodes = on_one_node ? 1 : replicas, .replicas = replicas},
                          {.atomic_batch_size = size});
}

bool ThroughputMoved(const v1::Hints& before, const v1::Hints& now, int replicas) {
  for (const bool on_one_node : {true, false}) {
    if (Moved(Throughput(before, replicas, on_one_node), Throughput(now, replicas, on_one_node))) return true;
  }
  return false;
}

// In samples; as far as batches are worth it.
double NoiseScale(const v1::Hints& hints) {
  const v1::GradParams& grad = hints.grad_params();
  return grad.norm() > 0 ? grad.var() / grad.norm() : grad.var();
}

// What is no estimate.
v1::Hints Limits(v1::Hints hints) {
  hints.clear_perf_params();
  hints.clear_grad_params();
  for (v1::GpuTypePerfParams& known : *hints.mutable_perf_params_by_gpu_type()) known.clear_perf_params();
  return hints;
}

}  // namespace

bool HintsMoved(const v1::Hints& before, const v1::Hints& now, int replicas) {
  if (Limits(before).SerializeAsString() != Limits(now).SerializeAsString()) return true;
  if (before.has_perf_params() != now.has_perf_params()) return true;
  if (before.has_grad_params() != now.has_grad_params()) return true;
  if (now.has_grad_params() && Moved(NoiseScale(before), NoiseScale(now))) return true;
  const int present = std::max(1, replicas);
  return now.has_perf_params() &&
         (ThroughputMoved(before, now, present) || ThroughputMoved(before, now, 2 * present));
}

}  // namespace adaptdl::supervisor
