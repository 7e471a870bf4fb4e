#include "libs/goodput/fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <set>
#include <vector>

#include <nlopt.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "libs/goodput/model.h"

namespace adaptdl::goodput {
namespace {

constexpr int kCount = 7;
constexpr int kGamma = 6;
enum Index { kAlphaC, kBetaC, kAlphaN, kBetaN, kAlphaR, kBetaR };

// Stands for "no time" and "no dependence" where a logarithm or a ratio follows.
constexpr double kLeast = 1e-8;
constexpr double kMost = 1e5;
constexpr double kLargestGamma = 10;

using Vector = std::array<double, kCount>;

Vector ToVector(const PerfParams& p) {
  return {p.alpha_c, p.beta_c, p.alpha_n, p.beta_n, p.alpha_r, p.beta_r, p.gamma};
}

PerfParams FromVector(const Vector& v) { return {v[0], v[1], v[2], v[3], v[4], v[5], v[6]}; }

// What the loss needs to know of a measurement, worked out once.
struct Row {
  double batch;
  double beyond_two;  // replicas beyond the second
  int network;        // index of the network's alpha; -1: a single replica, which has none
  double log_accum;
  double log_optim;
  double weight;  // the weights of all rows add up to 1
};

std::vector<Row> ToRows(absl::Span<const Measurement> measurements) {
  double total = 0;
  for (const Measurement& m : measurements) total += m.weight;
  std::vector<Row> rows;
  rows.reserve(measurements.size());
  for (const Measurement& m : measurements) {
    const int network = m.nodes > 1 ? kAlphaN : m.replicas > 1 ? kAlphaR : -1;
    rows.push_back({static_cast<double>(m.atomic_batch_size), std::max(m.replicas - 2.0, kLeast), network,
                    std::log(m.accum_time), std::log(m.optim_time), m.weight / total});
  }
  return rows;
}

// Sum of squares of one kind of error, and its gradient.
struct Errors {
  double squares = 0;
  Vector gradient = {};
};

// Adds the root of the mean square plus `smoothing`^2: without it the loss has a kink where all errors
// vanish.
void AddRoot(const Errors& errors, double smoothing, double* loss, Vector* gradient) {
  const double root = std::sqrt(errors.squares + smoothing * smoothing);
  *loss += root - smoothing;
  if (root == 0) return;
  for (int i = 0; i < kCount; ++i) (*gradient)[i] += errors.gradient[i] / root;
}

void AddPenalty(const Vector& v, Index alpha, Index beta, double* loss, Vector* gradient) {
  const double ratio = v[beta] / v[alpha];
  *loss += 1e-2 * ratio * ratio;
  (*gradient)[alpha] -= 2e-2 * ratio * ratio / v[alpha];
  (*gradient)[beta] += 2e-2 * ratio / v[alpha];
}

double Loss(const Vector& v, const std::vector<Row>& rows, double smoothing, Vector* gradient) {
  Errors accum;
  Errors optim;
  const double gamma = v[kGamma];
  for (const Row& row : rows) {
    const double accum_time = v[kAlphaC] + v[kBetaC] * row.batch;
    const double log_accum = std::log(accum_time);
    const double accum_error = log_accum - row.log_accum;
    accum.squares += row.weight * accum_error * accum_error;
    accum.gradient[kAlphaC] += row.weight * accum_error / accum_time;
    accum.gradient[kBetaC] += row.weight * accum_error / accum_time * row.batch;

    const double network_time = row.network < 0 ? kLeast + kLeast * row.beyond_two
                                                : v[row.network] + v[row.network + 1] * row.beyond_two;
    // log(T_acc^gamma + T_net^gamma) / gamma, where `share` is the compute time's part of the sum.
    const double log_network = std::log(network_time);
    const double power = std::exp(-gamma * std::abs(log_accum - log_network));
    const double log_sum = std::log1p(power);
    const double log_optim = std::max(log_accum, log_network) + log_sum / gamma;
    const double share = log_accum >= log_network ? 1 / (1 + power) : power / (1 + power);
    const double error = log_optim - row.log_optim;
    const double scaled = row.weight * error;
    optim.squares += scaled * error;
    optim.gradient[kAlphaC] += scaled * share / accum_time;
    optim.gradient[kBetaC] += scaled * share / accum_time * row.batch;
    if (row.network >= 0) {
      optim.gradient[row.network] += scaled * (1 - share) / network_time;
      optim.gradient[row.network + 1] += scaled * (1 - share) / network_time * row.beyond_two;
    }
    const double mean_log = share * log_accum + (1 - share) * log_network;
    optim.gradient[kGamma] += scaled * (mean_log - log_optim) / gamma;
  }
  double loss = 1e-3 * (gamma - 1) * (gamma - 1);
  *gradient = {};
  (*gradient)[kGamma] = 2e-3 * (gamma - 1);
  AddRoot(accum, smoothing, &loss, gradient);
  AddRoot(optim, smoothing, &loss, gradient);
  AddPenalty(v, kAlphaN, kBetaN, &loss, gradient);
  AddPenalty(v, kAlphaR, kBetaR, &loss, gradient);
  return loss;
}

// Where the search may go: the times are searched as logarithms, since they differ by orders of magnitude.
struct Box {
  Vector low;
  Vector high;
};

double ToSearch(int index, double value) { return index == kGamma ? value : std::log(value); }
double FromSearch(int index, double value) { return index == kGamma ? value : std::exp(value); }

struct Objective {
  const std::vector<Row>* rows;
  double smoothing;

  static double Call(unsigned, const double* point, double* gradient, void* self) {
    const auto* objective = static_cast<const Objective*>(self);
    Vector v;
    for (int i = 0; i < kCount; ++i) v[i] = FromSearch(i, point[i]);
    Vector slope;
    const double loss = Loss(v, *objective->rows, objective->smoothing, &slope);
    if (gradient != nullptr) {
      for (int i = 0; i < kCount; ++i) gradient[i] = i == kGamma ? slope[i] : slope[i] * v[i];
    }
    return loss;
  }
};

// One local search. Returns the best point that it saw, which is never worse than `start`.
Vector Search(nlopt_algorithm algorithm, const Vector& start, const Box& box, const std::vector<Row>& rows,
              double smoothing) {
  Objective objective{&rows, smoothing};
  std::unique_ptr<nlopt_opt_s, decltype(&nlopt_destroy)> search(nlopt_create(algorithm, kCount),
                                                                &nlopt_destroy);
  Vector low;
  Vector high;
  Vector point;
  for (int i = 0; i < kCount; ++i) {
    low[i] = ToSearch(i, box.low[i]);
    high[i] = ToSearch(i, box.high[i]);
    point[i] = std::clamp(ToSearch(i, start[i]), low[i], high[i]);
  }
  nlopt_set_lower_bounds(search.get(), low.data());
  nlopt_set_upper_bounds(search.get(), high.data());
  nlopt_set_min_objective(search.get(), &Objective::Call, &objective);
  nlopt_set_ftol_rel(search.get(), 1e-10);
  nlopt_set_xtol_rel(search.get(), 1e-10);
  nlopt_set_maxeval(search.get(), 500);
  double loss = 0;
  // Its result code does not matter: the caller compares the losses of all results.
  nlopt_optimize(search.get(), point.data(), &loss);
  Vector result;
  for (int i = 0; i < kCount; ++i) {
    result[i] = std::clamp(FromSearch(i, point[i]), box.low[i], box.high[i]);
  }
  return result;
}

// The reference's rules for what was not measured: low = high.
Box MakeBox(absl::Span<const Measurement> measurements) {
  std::set<int64_t> batch_sizes;
  bool several_nodes = false;
  bool several_on_one = false;
  bool beyond_two = false;
  double mean = 0;
  for (const Measurement& m : measurements) {
    batch_sizes.insert(m.atomic_batch_size);
    several_nodes |= m.nodes > 1;
    several_on_one |= m.nodes == 1 && m.replicas > 1;
    beyond_two |= m.replicas > 2;
    mean += m.accum_time / static_cast<double>(measurements.size());
  }
  Box box;
  box.low.fill(kLeast);
  box.high.fill(kMost);
  box.low[kGamma] = 1;
  box.high[kGamma] = kLargestGamma;
  if (batch_sizes.size() == 1) box.low[kAlphaC] = box.high[kAlphaC] = mean / 2;
  if (!several_nodes) box.high[kAlphaN] = box.high[kBetaN] = kLeast;
  if (!several_on_one) box.high[kAlphaR] = box.high[kBetaR] = kLeast;
  if (!beyond_two) box.high[kBetaN] = box.high[kBetaR] = kLeast;
  return box;
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
Vector StartFor(double gamma, absl::Span<const Measurement> measurements) {
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
  } positive[] = {{"accum_time", m.accum_time}, {"optim_time", m.optim_time}, {"weight", m.weight}};
  for (const auto& field : positive) {
    if (std::isfinite(field.value) && field.value > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(field.name, " is ", field.value, "; it must be a finite number greater than 0"));
  }
  if (m.nodes < 1 || m.replicas < m.nodes || m.atomic_batch_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "nodes = ", m.nodes, ", replicas = ", m.replicas, ", atomic_batch_size = ", m.atomic_batch_size,
        "; 1 <= nodes <= replicas and 1 <= atomic_batch_size must hold"));
  }
  return absl::OkStatus();
}

}  // namespace

double FitLoss(const PerfParams& params, absl::Span<const Measurement> measurements, PerfGradient* gradient) {
  Vector slope;
  const double loss = Loss(ToVector(params), ToRows(measurements), 0, &slope);
  if (gradient != nullptr) *gradient = slope;
  return loss;
}

absl::StatusOr<PerfParams> FitPerfParams(absl::Span<const Measurement> measurements) {
  if (measurements.empty()) return absl::InvalidArgumentError("there is no measurement to fit the model to");
  for (const Measurement& m : measurements) {
    absl::Status status = CheckMeasurement(m);
    if (!status.ok()) return status;
  }
  const Box box = MakeBox(measurements);
  const std::vector<Row> rows = ToRows(measurements);
  std::vector<Vector> starts = {{0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001}};
  for (const double gamma : {1.001, 1.5, 3.0, 8.0}) starts.push_back(StartFor(gamma, measurements));

  Vector best = {};
  double least = HUGE_VAL;
  Vector unused;
  for (const Vector& start : starts) {
    // From smooth to sharp: far away the kink at zero error misleads, at the end it is what is wanted.
    Vector point = Search(NLOPT_LD_LBFGS, start, box, rows, 1e-2);
    point = Search(NLOPT_LD_SLSQP, point, box, rows, 1e-4);
    point = Search(NLOPT_LD_SLSQP, point, box, rows, 1e-7);
    const double loss = Loss(point, rows, 0, &unused);
    if (loss < least) {
      least = loss;
      best = point;
    }
  }
  if (box.high[kAlphaN] == kLeast) {
    best[kAlphaN] = std::max(best[kAlphaN], 1.1 * best[kAlphaR]);
    best[kBetaN] = std::max(best[kBetaN], 1.1 * best[kBetaR]);
  }
  return FromVector(best);
}

}  // namespace adaptdl::goodput
