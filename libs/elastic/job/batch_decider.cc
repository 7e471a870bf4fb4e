#include "libs/elastic/job/batch_decider.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "nlohmann/json.hpp"

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

void BatchDecider::SetMembership(const GroupMembership& membership) {
  leads_ = membership.rank == 0;
  controller_.SetReplicas({.topology = {.nodes = membership.num_nodes, .replicas = membership.world_size},
                           .gpu_types = membership.gpu_types,
                           .group = membership.group});
}

void BatchDecider::Propose(const goodput::BatchConfig& batch, int64_t group) {
  if (batch.atomic_batch_size > kLargestSignal || batch.accumulation_steps >= kLargestSignal) return;
  MutexLock lock(&mutex_);
  proposed_ = {batch, group};
}

void BatchDecider::Decide() {
  if (!controller_.ready()) return;
  const std::optional<goodput::PerfParams> perf = FitProfile(*profile_, controller_.replicas().gpu_types);
  if (!perf) return;
  controller_.SetPerfParams(*perf);
  const auto decision = controller_.Decide(kMostGrowth);
  if (decision) Propose(decision->batch, decision->group);
}

void BatchDecider::Tick(double now) {
  if (!leads_) return;
  hints_.Tick(now);
  MaybeDecide(now);
}

void BatchDecider::MaybeDecide(double now) {
  // One step says little; what an earlier run of the job measured is enough.
  const double trained = profile_->AddedSeconds();
  if (!controller_.ready() || (!knows_profile_ && trained < kFirstDecision)) return;
  // A short job has to find its batch size soon, and each change tells it more about itself.
  const double longest = absl::ToDoubleSeconds(options_.period);
  if (now - last_decision_ < std::min(std::max(trained / 4, kFirstDecision), longest)) return;
  last_decision_ = now;
  Decide();
}

bool BatchDecider::StartAdapting(const void* loader) {
  if (adaptive_loader_ != nullptr && adaptive_loader_ != loader) return false;
  adaptive_loader_ = loader;
  return true;
}

void BatchDecider::StopAdapting(const void* loader) {
  if (adaptive_loader_ != loader) return;
  adaptive_loader_ = nullptr;
  controller_.Clear();
}

void BatchDecider::OnStep(const StepSummary& summary) {
  hints_.SetBatchSize(summary.init_batch_size, summary.limits);
  if (summary.base_batch_size > 0) {
    base_share_ = static_cast<double>(summary.base_batch_size) / static_cast<double>(summary.init_batch_size);
  }
  if (summary.limits.max_batch_size <= 0) return;
  const goodput::BatchConfig batch = {summary.atomic_batch_size, summary.micro_batches - 1};
  controller_.SetBatch(summary.init_batch_size, summary.limits, summary.batch_size,
                       summary.chosen ? std::optional<goodput::BatchConfig>(batch) : std::nullopt);
}

void BatchDecider::SetGradientStatistics(double sqr, double var) {
  const goodput::GradParams grad = {.sqr = sqr, .var = var};
  if (!goodput::Validate(grad).ok()) return;
  controller_.SetGradParams(grad);
  hints_.SetGradParams({.sqr = sqr, .var = var * base_share_});
}

void BatchDecider::Save(nlohmann::json* job) const {
  (*job)["atomic_batch_size"] = chosen_.atomic_batch_size;
  (*job)["micro_batches"] = chosen_.micro_batches;
  (*job)["batch_replicas"] = chosen_.replicas;
  const auto grad = controller_.grad_params();
  if (!grad) return;
  (*job)["gradient_sqr"] = grad->sqr;
  (*job)["gradient_var"] = grad->var;
}

void BatchDecider::Load(const nlohmann::json& job) {
  knows_profile_ = true;
  chosen_.atomic_batch_size = job.value("atomic_batch_size", int64_t{0});
  chosen_.micro_batches = job.value("micro_batches", int64_t{0});
  chosen_.replicas = job.value("batch_replicas", 0);
  if (job.contains("gradient_sqr")) {
    SetGradientStatistics(job.value("gradient_sqr", 0.0), job.value("gradient_var", 0.0));
  }
}

void BatchDecider::Offer(bool /*in_step*/, absl::Span<double> signals) {
  MutexLock lock(&mutex_);
  // What was chosen for other replicas suits these in no way.
  if (proposed_ && proposed_->group != controller_.replicas().group) proposed_ = std::nullopt;
  if (!proposed_) return;
  signals[0] = static_cast<double>(proposed_->batch.atomic_batch_size);
  signals[1] = static_cast<double>(proposed_->batch.accumulation_steps + 1);
}

void BatchDecider::OnAgreed(absl::Span<const double> sums, int members) {
  if (sums[1] == 0) return;
  chosen_.atomic_batch_size = static_cast<int64_t>(sums[0]);
  chosen_.micro_batches = static_cast<int64_t>(sums[1]);
  chosen_.replicas = members;
  MutexLock lock(&mutex_);
  proposed_ = std::nullopt;
}

}  // namespace adaptdl::elastic
