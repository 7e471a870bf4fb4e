#include "libs/goodput/model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/goodput/overlap.h"

namespace adaptdl::goodput {
namespace {

// Stands for "no time at all" where a logarithm follows.
constexpr double kNoTime = 1e-8;
// Largest gradient statistic that stays finite under the model's sums and products.
constexpr double kLargestStatistic = 1e150;

absl::Status CheckRange(absl::string_view field, double value, double low, double high) {
  if (std::isfinite(value) && value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, "; it must be a finite number in [", low, ", ", high, "]"));
}

}  // namespace

absl::Status Validate(const PerfParams& params) {
  const struct {
    absl::string_view name;
    double value;
  } times[] = {{"alpha_c", params.alpha_c}, {"beta_c", params.beta_c},   {"alpha_n", params.alpha_n},
               {"beta_n", params.beta_n},   {"alpha_r", params.alpha_r}, {"beta_r", params.beta_r}};
  for (const auto& time : times) {
    absl::Status status = CheckRange(time.name, time.value, 0, kLongestTime);
    if (!status.ok()) return status;
  }
  if (params.alpha_c + params.beta_c < kShortestTime) {
    return absl::InvalidArgumentError(absl::StrCat("alpha_c + beta_c is ", params.alpha_c + params.beta_c,
                                                   "; a micro-step takes at least ", kShortestTime, " s"));
  }
  return CheckRange("gamma", params.gamma, 1, 10);
}

absl::Status Validate(const GradParams& params) {
  absl::Status status = CheckRange("norm", params.sqr, 0, kLargestStatistic);
  if (!status.ok()) return status;
  return CheckRange("var", params.var, 0, kLargestStatistic);
}

absl::StatusOr<PerfParams> ScaleToGpuType(const PerfParams& known, double throughput_ratio) {
  if (!std::isfinite(throughput_ratio) || throughput_ratio <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("throughput_ratio is ", throughput_ratio,
                                                   "; it must be a finite number greater than 0"));
  }
  PerfParams scaled = known;
  scaled.alpha_c /= throughput_ratio;
  scaled.beta_c /= throughput_ratio;
  absl::Status status = Validate(scaled);
  if (!status.ok()) return status;
  return scaled;
}

double AccumTime(const PerfParams& params, double atomic_batch_size) {
  return params.alpha_c + params.beta_c * atomic_batch_size;
}

double NetworkTime(const PerfParams& params, Topology topology) {
  const double beyond_two = std::max(topology.replicas - 2.0, kNoTime);
  double time = kNoTime + kNoTime * beyond_two;
  if (topology.nodes > 1) {
    time = params.alpha_n + params.beta_n * beyond_two;
  } else if (topology.replicas > 1) {
    time = params.alpha_r + params.beta_r * beyond_two;
  }
  return time;
}

double OptimTime(const PerfParams& params, Topology topology, double atomic_batch_size) {
  return internal::Overlap(AccumTime(params, atomic_batch_size), NetworkTime(params, topology), params.gamma)
      .time;
}

double GoodputFunction::Throughput(Topology topology, BatchConfig batch) const {
  const double step_time = static_cast<double>(batch.accumulation_steps) *
                               AccumTime(perf_, static_cast<double>(batch.atomic_batch_size)) +
                           OptimTime(perf_, topology, static_cast<double>(batch.atomic_batch_size));
  const double total = static_cast<double>(topology.replicas) * static_cast<double>(batch.atomic_batch_size) *
                       static_cast<double>(batch.accumulation_steps + 1);
  return total / step_time;
}

double GoodputFunction::Gain(double total_batch_size) const {
  const double scale = total_batch_size / static_cast<double>(init_batch_size_);
  const double denominator = grad_.var / scale + grad_.sqr;
  const double gain = denominator > 0 ? (grad_.var + grad_.sqr) / denominator : 1.0;
  // It never is more in exact arithmetic; the rounding of tiny statistics could make it so.
  return std::min(gain, std::max(scale, 1.0));
}

double GoodputFunction::Efficiency(double total_batch_size) const {
  return Gain(total_batch_size) * static_cast<double>(init_batch_size_) / total_batch_size;
}

double GoodputFunction::Evaluate(Topology topology, BatchConfig batch) const {
  const double total = static_cast<double>(topology.replicas) * static_cast<double>(batch.atomic_batch_size) *
                       static_cast<double>(batch.accumulation_steps + 1);
  return Throughput(topology, batch) * Efficiency(total);
}

}  // namespace adaptdl::goodput
