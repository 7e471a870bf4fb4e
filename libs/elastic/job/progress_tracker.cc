#include "libs/elastic/job/progress_tracker.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "libs/goodput/model.h"
#include "nlohmann/json.hpp"

namespace adaptdl::elastic {
namespace {

// Means are of so many steps, about.
constexpr int64_t kStepsInMeans = 20;

// The number, or 0, which stands for what is unknown.
double IfFinite(double number) { return std::isfinite(number) ? number : 0; }

}  // namespace

void ProgressTracker::CountStep(double gain) {
  ++optimizer_steps_;
  scale_invariant_steps_ += gain;
  last_gain_ = gain;
  // A step whose gradients overflow is worth nothing, and says nothing of others.
  if (gain > 0) report_.gain = IfFinite(gain);
}

void ProgressTracker::SetLoop(const StepSummary& summary) {
  report_.total_batch_size = summary.batch_size;
  // A short batch at the end of an epoch is none that was chosen.
  if (summary.typical || report_.local_batch_size == 0) {
    report_.local_batch_size = summary.atomic_batch_size;
    report_.accumulation_steps = static_cast<int>(summary.micro_batches - 1);
  }
  pass_steps_ = summary.loop_steps;
  pass_fraction_ = summary.loop_fraction;
}

void ProgressTracker::AddStep(double throughput, const StepTimes& times) {
  steps_in_means_ = std::min(steps_in_means_ + 1, kStepsInMeans);
  StepTimes means = report_.step_times.value_or(StepTimes());
  const auto add = [this](double value, double* mean) {
    *mean += (value - *mean) / static_cast<double>(steps_in_means_);
  };
  add(throughput, &report_.throughput);
  add(times.compute, &means.compute);
  add(times.sync, &means.sync);
  add(times.data, &means.data);
  report_.step_times = means;
}

void ProgressTracker::SetGradients(const GradientReport& gradients) {
  if (gradients.learning_rate_factor > 0) {
    report_.learning_rate_factor = IfFinite(gradients.learning_rate_factor);
  }
  report_.gradient_noise_scale = report_.efficiency = 0;
  const goodput::GradParams grad = {.sqr = gradients.sqr, .var = gradients.var};
  if (!goodput::Validate(grad).ok()) return;
  const auto init_batch_size = static_cast<double>(gradients.init_batch_size);
  const goodput::GoodputFunction goodput({}, grad, gradients.init_batch_size);
  report_.efficiency = IfFinite(goodput.Efficiency(gradients.scale * init_batch_size));
  if (grad.sqr > 0) report_.gradient_noise_scale = IfFinite(init_batch_size * grad.var / grad.sqr);
}

Progress ProgressTracker::Report(int finished_epochs) {
  report_.optimizer_steps = optimizer_steps_;
  report_.scale_invariant_steps = scale_invariant_steps_;
  report_.total_scale_invariant_steps = static_cast<double>(report_.total_epochs) * pass_steps_;
  report_.epoch = finished_epochs;
  if (report_.total_epochs > 0) {
    report_.fraction = std::clamp((finished_epochs + pass_fraction_) / report_.total_epochs, 0.0, 1.0);
  }
  return report_;
}

void ProgressTracker::Save(nlohmann::json* job) const {
  (*job)["optimizer_steps"] = optimizer_steps_;
  (*job)["scale_invariant_steps"] = scale_invariant_steps_;
  (*job)["pass_fraction"] = pass_fraction_;
  (*job)["progress_surplus"] = surplus_;
}

void ProgressTracker::Load(const nlohmann::json& job) {
  optimizer_steps_ = job.value("optimizer_steps", int64_t{0});
  // Checkpoints from before batch sizes could change do not hold it: each step was worth one.
  scale_invariant_steps_ = job.value("scale_invariant_steps", static_cast<double>(optimizer_steps_));
  pass_fraction_ = job.value("pass_fraction", 0.0);
  surplus_ = job.value("progress_surplus", 0.0);
}

void ProgressTracker::SaveStep(nlohmann::json* step) const {
  (*step)["optimizer_steps"] = optimizer_steps_;
  (*step)["scale_invariant_steps"] = scale_invariant_steps_;
  (*step)["gain"] = last_gain_;
}

void ProgressTracker::LoadStep(const nlohmann::json& step) {
  optimizer_steps_ = step.at("optimizer_steps");
  scale_invariant_steps_ = step.at("scale_invariant_steps");
  last_gain_ = step.at("gain");
}

}  // namespace adaptdl::elastic
