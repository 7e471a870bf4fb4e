#include "libs/goodput/fit.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libs/goodput/fit_loss.h"
#include "libs/goodput/fit_search.h"
#include "libs/goodput/model.h"

namespace adaptdl::goodput {
namespace {

using internal::kLeast;

constexpr double kMost = 1e5;
constexpr double kLargestGamma = 10;
// Weights whose sums and ratios stay finite.
constexpr double kLeastWeight = 1e-100;
constexpr double kLargestWeight = 1e100;
// See RecencyWeight().
constexpr double kLeastRecency = 1e-6;
// Smoothing for the search from afar: errors of a hundredth.
constexpr double kRough = 1e-2;

constexpr double PerfParams::*kFields[] = {&PerfParams::alpha_c, &PerfParams::beta_c,  &PerfParams::alpha_n,
                                           &PerfParams::beta_n,  &PerfParams::alpha_r, &PerfParams::beta_r,
                                           &PerfParams::gamma};

// Bounds of every parameter, inclusive.
struct Range {
  PerfParams low;
  PerfParams high;
};

// The reference's rules for what was not measured: low = high.
Range MakeRange(absl::Span<const Measurement> measurements) {
  std::set<int64_t> batch_sizes;
  bool several_nodes = false;
  bool several_on_one = false;
  bool beyond_two = false;
  double time = 0;
  double weight = 0;
  for (const Measurement& m : measurements) {
    batch_sizes.insert(m.atomic_batch_size);
    several_nodes |= m.nodes > 1;
    several_on_one |= m.nodes == 1 && m.replicas > 1;
    beyond_two |= m.replicas > 2;
    time += m.weight * m.accum_time;
    weight += m.weight;
  }
  PerfParams low = {kLeast, kLeast, kLeast, kLeast, kLeast, kLeast, 1};
  PerfParams high = {kMost, kMost, kMost, kMost, kMost, kMost, kLargestGamma};
  if (batch_sizes.size() == 1) low.alpha_c = high.alpha_c = time / weight / 2;
  if (!several_nodes) high.alpha_n = high.beta_n = kLeast;
  if (!several_on_one) high.alpha_r = high.beta_r = kLeast;
  if (!beyond_two) high.beta_n = high.beta_r = kLeast;
  return {low, high};
}

// A straight line through (x, y) by least squares of relative errors; its coefficients are kept positive.
struct Line {
  double alpha = kLeast;
  double beta = kLeast;
};

struct Point {
  double x;
  double y;
};

Line FitLine(const std::vector<Point>& points) {
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (const Point& p : points) {
    const double weight = 1 / (p.y * p.y);
    w += weight;
    wx += weight * p.x;
    wy += weight * p.y;
    wxx += weight * p.x * p.x;
    wxy += weight * p.x * p.y;
  }
  Line line;
  if (w == 0) return line;
  const double determinant = w * wxx - wx * wx;
  double beta = determinant > 1e-12 * w * wxx ? (w * wxy - wx * wy) / determinant : 0;
  double alpha = (wy - beta * wx) / w;
  if (beta < 0) {
    beta = 0;
    alpha = wy / w;
  } else if (alpha < 0) {
    alpha = 0;
    beta = wxx > 0 ? wxy / wxx : 0;
  }
  line.alpha = std::max(alpha, kLeast);
  line.beta = std::max(beta, kLeast);
  return line;
}

// A start from the data: the compute line, and what `gamma` leaves over for the network.
PerfParams StartFor(double gamma, absl::Span<const Measurement> measurements) {
  std::vector<Point> compute;
  for (const Measurement& m : measurements) {
    compute.push_back({static_cast<double>(m.atomic_batch_size), m.accum_time});
  }
  const Line line = FitLine(compute);
  std::vector<Point> between;
  std::vector<Point> within;
  for (const Measurement& m : measurements) {
    if (m.replicas < 2) continue;
    const double ratio = (line.alpha + line.beta * static_cast<double>(m.atomic_batch_size)) / m.optim_time;
    const double rest = std::max(1 - std::pow(std::min(ratio, 1.0), gamma), 1e-4);
    const Point point = {m.replicas - 2.0, m.optim_time * std::pow(rest, 1 / gamma)};
    (m.nodes > 1 ? between : within).push_back(point);
  }
  const Line n = FitLine(between);
  const Line r = FitLine(within);
  // Off the lower bounds, where logarithms have hardly any slope.
  const auto lift = [](double value, double beside) { return std::max(value, 1e-3 * beside); };
  return {lift(line.alpha, line.beta),
          lift(line.beta, line.alpha / 1e3),
          n.alpha,
          lift(n.beta, n.alpha),
          r.alpha,
          lift(r.beta, r.alpha),
          gamma};
}

absl::Status CheckMeasurement(const Measurement& m) {
  const struct {
    absl::string_view name;
    double value;
    double low;
    double high;
  } positive[] = {{"accum_time", m.accum_time, kShortestTime, kLongestTime},
                  {"optim_time", m.optim_time, kShortestTime, kLongestTime},
                  {"weight", m.weight, kLeastWeight, kLargestWeight}};
  for (const auto& field : positive) {
    if (field.value >= field.low && field.value <= field.high) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(field.name, " is ", field.value, "; it must be in [", field.low, ", ", field.high, "]"));
  }
  if (m.nodes < 1 || m.replicas < m.nodes) {
    return absl::InvalidArgumentError(
        absl::StrCat("nodes = ", m.nodes, ", replicas = ", m.replicas, "; 1 <= nodes <= replicas must hold"));
  }
  if (m.atomic_batch_size < 1 || m.atomic_batch_size > kLargestBatchSize) {
    return absl::InvalidArgumentError(absl::StrCat("atomic_batch_size is ", m.atomic_batch_size,
                                                   "; it must be in [1, ", kLargestBatchSize, "]"));
  }
  return absl::OkStatus();
}

}  // namespace

double RecencyWeight(absl::Time measured, absl::Time now, absl::Duration half_life) {
  if (measured >= now) return 1;
  return std::max(std::exp2(-absl::FDivDuration(now - measured, half_life)), kLeastRecency);
}

double FitLoss(const PerfParams& params, absl::Span<const Measurement> measurements, PerfGradient* gradient) {
  const internal::Expansion at =
      internal::Expand(internal::ToPoint(params), internal::ToRows(measurements), /*smoothing=*/0);
  if (gradient != nullptr) {
    // From derivatives by logarithms.
    *gradient = {at.gradient[0] / params.alpha_c,
                 at.gradient[1] / params.beta_c,
                 at.gradient[2] / params.alpha_n,
                 at.gradient[3] / params.beta_n,
                 at.gradient[4] / params.alpha_r,
                 at.gradient[5] / params.beta_r,
                 at.gradient[6]};
  }
  return at.loss;
}

absl::StatusOr<PerfParams> FitPerfParams(absl::Span<const Measurement> measurements) {
  if (measurements.empty()) return absl::InvalidArgumentError("there is no measurement to fit the model to");
  for (const Measurement& m : measurements) {
    absl::Status status = CheckMeasurement(m);
    if (!status.ok()) return status;
  }
  const Range range = MakeRange(measurements);
  const internal::Box box = {internal::ToPoint(range.low), internal::ToPoint(range.high)};
  const std::vector<internal::Row> rows = internal::ToRows(measurements);
  // AdaptDL's start, and two from the data: with little overlap of compute and network, and with much.
  const PerfParams starts[] = {
      {0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001}, StartFor(1.5, measurements), StartFor(8.0, measurements)};
  internal::Minimum best = {{}, HUGE_VAL};
  for (const PerfParams& start : starts) {
    const internal::Minimum found = internal::Descend(internal::ToPoint(start), box, rows, kRough);
    if (found.loss < best.loss) best = found;
  }
  // From smooth to sharp: far away the kink at zero error misleads, at the end it is what is wanted.
  for (const double smoothing : {1e-4, 1e-7}) {
    best.point = internal::Sharpen(best.point, box, rows, smoothing);
  }
  PerfParams params = internal::FromPoint(best.point);
  // The logarithms blur what is fixed.
  for (const auto field : kFields)
    params.*field = std::clamp(params.*field, range.low.*field, range.high.*field);
  const bool never_on_several_nodes = range.high.alpha_n == kLeast;
  if (never_on_several_nodes) {
    params.alpha_n = std::max(params.alpha_n, 1.1 * params.alpha_r);
    params.beta_n = std::max(params.beta_n, 1.1 * params.beta_r);
  }
  return params;
}

}  // namespace adaptdl::goodput
