// How rank 0 decides on the batch size of a job that adapts it, in the background thread.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "libs/elastic/job/job_core.h"
#include "libs/elastic/profile/hints_reporter.h"

namespace adaptdl::elastic {
namespace {

// Sizes that a float32 sum carries exactly.
constexpr int64_t kLargestSignal = (int64_t{1} << 24) - 1;

// Seconds of steps before the first decision on the batch size, and least time between decisions.
constexpr double kFirstDecision = 0.25;

// By how much a decision may multiply the total batch size: models of few measurements may be far off, and
// the next decision knows more.
constexpr double kMostGrowth = 4;

}  // namespace

void JobCore::ProposeBatch(const goodput::BatchConfig& batch, int64_t group) {
  if (batch.atomic_batch_size > kLargestSignal || batch.accumulation_steps >= kLargestSignal) return;
  MutexLock lock(&mutex_);
  proposed_batch_ = {batch, group};
}

void JobCore::DecideBatch() {
  if (!controller_.ready()) return;
  const std::optional<goodput::PerfParams> perf = FitProfile(profile_, controller_.replicas().gpu_types);
  if (!perf) return;
  controller_.SetPerfParams(*perf);
  const auto decision = controller_.Decide(kMostGrowth);
  if (decision) ProposeBatch(decision->batch, decision->group);
}

void JobCore::MaybeDecideBatch(double now) {
  // One step says little; what an earlier run of the job measured is enough.
  const double trained = profile_.AddedSeconds();
  if (!controller_.ready() || (!restored_profile_ && trained < kFirstDecision)) return;
  // A short job has to find its batch size soon, and each change tells it more about itself.
  const double longest = absl::ToDoubleSeconds(dependencies_.batch_decision_period);
  if (now - last_decision_ < std::min(std::max(trained / 4, kFirstDecision), longest)) return;
  last_decision_ = now;
  DecideBatch();
}

bool JobCore::StartAdapting(const AdaptiveDataLoader* loader) {
  if (adaptive_loader_ != nullptr && adaptive_loader_ != loader) return false;
  adaptive_loader_ = loader;
  return true;
}

void JobCore::StopAdapting(const AdaptiveDataLoader* loader) {
  if (adaptive_loader_ != loader) return;
  adaptive_loader_ = nullptr;
  controller_.Clear();
}

void JobCore::SetGradientStatistics(double sqr, double var) {
  const goodput::GradParams grad = {.sqr = sqr, .var = var};
  if (!goodput::Validate(grad).ok()) return;
  controller_.SetGradParams(grad);
  hints_.SetGradParams({.sqr = sqr, .var = var * base_share_});
}

}  // namespace adaptdl::elastic
