#include "libs/elastic/job/batch_size_controller.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "libs/goodput/model.h"
#include "libs/goodput/optimize.h"

namespace adaptdl::elastic {
namespace {

using goodput::BatchChoice;
using goodput::BatchConfig;
using goodput::BatchLimits;
using goodput::GoodputFunction;
using goodput::Topology;

bool Allowed(const BatchConfig& batch, Topology topology, const BatchLimits& limits) {
  if (limits.max_local > 0 && batch.atomic_batch_size > limits.max_local) return false;
  if (batch.atomic_batch_size < limits.min_local) return false;
  if (batch.accumulation_steps > 0 && !limits.accumulation) return false;
  // The smallest batch that all replicas take an equal part in may be a little larger than the largest one.
  const int64_t micro_batches = topology.replicas * (batch.accumulation_steps + 1);
  return batch.atomic_batch_size * micro_batches < limits.max_batch_size + micro_batches;
}

}  // namespace

std::optional<BatchConfig> DecideBatchSize(const GoodputFunction& goodput, Topology topology,
                                           const BatchLimits& limits, std::optional<BatchConfig> current) {
  const std::optional<BatchChoice> best = goodput::OptimizeBatchSize(goodput, topology, limits);
  if (!best) return std::nullopt;
  if (!current || !Allowed(*current, topology, limits)) return best->batch;
  if (best->goodput > kBatchSizeHysteresis * goodput.Evaluate(topology, *current)) return best->batch;
  return std::nullopt;
}

void BatchSizeController::SetReplicas(const Replicas& replicas) {
  MutexLock lock(&mutex_);
  replicas_ = replicas;
  if (batch_) batch_->current = std::nullopt;
}

BatchSizeController::Replicas BatchSizeController::replicas() const {
  MutexLock lock(&mutex_);
  return replicas_;
}

void BatchSizeController::SetBatch(int64_t init_batch_size, const BatchLimits& limits, int64_t total,
                                   std::optional<BatchConfig> current) {
  MutexLock lock(&mutex_);
  batch_ = Batch{init_batch_size, limits, total, current};
}

void BatchSizeController::Clear() {
  MutexLock lock(&mutex_);
  batch_ = std::nullopt;
}

void BatchSizeController::SetGradParams(const goodput::GradParams& grad) {
  MutexLock lock(&mutex_);
  grad_ = grad;
}

void BatchSizeController::SetPerfParams(const goodput::PerfParams& perf) {
  MutexLock lock(&mutex_);
  perf_ = perf;
}

bool BatchSizeController::ready() const {
  MutexLock lock(&mutex_);
  return batch_.has_value() && grad_.has_value();
}

std::optional<goodput::GradParams> BatchSizeController::grad_params() const {
  MutexLock lock(&mutex_);
  return grad_;
}

std::optional<BatchSizeController::Decision> BatchSizeController::Decide(double most_growth) const {
  std::optional<GoodputFunction> goodput;
  Batch batch;
  Topology topology;
  int64_t group = 0;
  {
    MutexLock lock(&mutex_);
    if (!batch_ || !grad_ || !perf_) return std::nullopt;
    batch = *batch_;
    topology = replicas_.topology;
    group = replicas_.group;
    goodput.emplace(*perf_, *grad_, batch.init_batch_size);
  }
  // Statistics of a model that diverges may be anything.
  if (!goodput::Validate(goodput->grad()).ok() || !goodput::Validate(goodput->perf()).ok()) {
    return std::nullopt;
  }
  const double most =
      std::max(static_cast<double>(batch.total) * most_growth, static_cast<double>(batch.init_batch_size));
  if (most < static_cast<double>(batch.limits.max_batch_size)) {
    batch.limits.max_batch_size = static_cast<int64_t>(most);
  }
  const std::optional<BatchConfig> chosen = DecideBatchSize(*goodput, topology, batch.limits, batch.current);
  if (!chosen) return std::nullopt;
  return Decision{*chosen, group};
}

}  // namespace adaptdl::elastic
