#include "adaptdl/scaling_rule.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace adaptdl {
namespace {

constexpr double kSmallestVar = 1e-6;

std::vector<double> ForAll(const StepContext& step, double factor) {
  return std::vector<double>(step.sqr.size(), factor);
}

}  // namespace

double Gain(double sqr, double var, double scale) {
  sqr = std::max(sqr, 0.0);
  var = std::max(var, kSmallestVar);
  return (var + sqr) / (var / scale + sqr);
}

std::vector<double> AdaScale::Factors(const StepContext& step) {
  std::vector<double> factors(step.sqr.size());
  for (size_t group = 0; group < factors.size(); ++group) {
    factors[group] = Gain(step.sqr[group], step.var[group], step.scale);
  }
  return factors;
}

std::vector<double> AdamScale::Factors(const StepContext& step) {
  std::vector<double> factors = AdaScale().Factors(step);
  for (double& factor : factors) factor = std::pow(factor, power_);
  return factors;
}

std::vector<double> LinearScale::Factors(const StepContext& step) { return ForAll(step, step.scale); }

std::vector<double> SqrtScale::Factors(const StepContext& step) {
  return ForAll(step, std::sqrt(step.scale));
}

std::vector<double> LEGW::Factors(const StepContext& step) {
  const double steps_per_epoch = static_cast<double>(data_size_) / static_cast<double>(step.init_batch_size);
  const double warmup = base_warmup_epochs_ * step.scale * steps_per_epoch;
  const double share = step.progress < warmup ? step.progress / warmup : 1;
  return ForAll(step, std::sqrt(step.scale) * share);
}

}  // namespace adaptdl
