#include "services/supervisor/web/prediction_cache.h"

#include <optional>
#include <utility>

#include "libs/goodput/optimize.h"
#include "libs/hints/hints.h"

namespace adaptdl::supervisor {
namespace {

constexpr absl::Duration kForgottenAfter = absl::Minutes(10);
constexpr absl::Duration kPurgePeriod = absl::Minutes(1);
constexpr int kPredicted[] = {1, 2, 4, 8, 16};

Predictions Predict(const v1::Hints& hints) {
  const std::optional<goodput::GoodputFunction> model = hints::ModelOf(hints);
  const goodput::BatchLimits limits = hints::ToLimits(hints);
  if (!model.has_value() || !goodput::Validate(limits, hints.init_batch_size()).ok()) return {};
  Predictions predictions;
  for (const int replicas : kPredicted) {
    const goodput::Topology topology = {1, replicas};
    const auto best = goodput::OptimizeBatchSize(*model, topology, limits);
    if (!best.has_value()) continue;
    predictions.push_back({replicas, model->Throughput(topology, best->batch), best->goodput});
  }
  return predictions;
}

}  // namespace

std::shared_ptr<const Predictions> PredictionCache::Of(const std::string& uid, const v1::Hints& hints,
                                                       absl::Time now) {
  std::string text = hints.SerializeAsString();
  {
    MutexLock lock(&mutex_);
    Purge(now);
    const auto found = known_.find(uid);
    if (found != known_.end() && found->second.hints == text) {
      found->second.used = now;
      return found->second.predictions;
    }
  }
  // Without the lock: two that ask at once may both compute it, which is rare.
  auto predictions = std::make_shared<const Predictions>(Predict(hints));
  MutexLock lock(&mutex_);
  known_[uid] = {std::move(text), predictions, now};
  return predictions;
}

size_t PredictionCache::size() const {
  MutexLock lock(&mutex_);
  return known_.size();
}

void PredictionCache::Purge(absl::Time now) {
  if (now < purged_ + kPurgePeriod) return;
  purged_ = now;
  std::erase_if(known_, [&](const auto& known) { return known.second.used + kForgottenAfter < now; });
}

}  // namespace adaptdl::supervisor
