#include "libs/goodput/fit_loss.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/types/span.h"
#include "libs/goodput/model.h"

namespace adaptdl::goodput::internal {
namespace {

// Sum of squares of one kind of error, with half of its gradient and, if it is curved, of its curvature.
template <bool curved>
struct Squares {
  double sum = 0;
  Vector gradient = {};
  Matrix curvature = {};

  // Adds an error whose derivatives by the parameters indices[0..n) are slopes[0..n); `indices` ascends.
  template <size_t n>
  void Add(double error, double weight, const int (&indices)[n], const double (&slopes)[n]) {
    sum += weight * error * error;
    for (size_t i = 0; i < n; ++i) {
      const double scaled = weight * slopes[i];
      gradient[indices[i]] += scaled * error;
      for (size_t j = 0; curved && j <= i; ++j) curvature[indices[i]][indices[j]] += scaled * slopes[j];
    }
  }
};

template <bool curved>
void AddRoot(const Squares<curved>& squares, double smoothing, Expansion* total) {
  const double root = std::sqrt(squares.sum + smoothing * smoothing);
  total->loss += root - smoothing;
  if (root == 0) return;
  for (int i = 0; i < kCount; ++i) {
    total->gradient[i] += squares.gradient[i] / root;
    for (int j = 0; curved && j <= i; ++j) total->curvature[i][j] += squares.curvature[i][j] / root;
  }
}

void AddPenalty(const Vector& values, Index alpha, Index beta, Expansion* total) {
  const double ratio = values[beta] / values[alpha];
  const double penalty = 1e-2 * ratio * ratio;
  total->loss += penalty;
  total->gradient[alpha] -= 2 * penalty;
  total->gradient[beta] += 2 * penalty;
  total->curvature[alpha][alpha] += 4 * penalty;
  total->curvature[beta][alpha] -= 4 * penalty;
  total->curvature[beta][beta] += 4 * penalty;
}

Vector ToValues(const Vector& point) {
  Vector values = point;
  for (int i = 0; i < kGamma; ++i) values[i] = std::exp(point[i]);
  return values;
}

template <bool curved>
void AddRow(const Vector& values, const Row& row, Squares<curved>* accum, Squares<curved>* optim) {
  const double gamma = values[kGamma];
  const double by_batch = values[kBetaC] * row.batch;
  const double accum_time = values[kAlphaC] + by_batch;
  const double log_accum = std::log(accum_time);
  const double alpha_slope = values[kAlphaC] / accum_time;
  const double beta_slope = by_batch / accum_time;
  accum->Add(log_accum - row.log_accum, row.weight, {kAlphaC, kBetaC}, {alpha_slope, beta_slope});

  const bool alone = row.network < 0;
  const double latency = alone ? kLeast : values[row.network];
  const double by_replicas = (alone ? kLeast : values[row.network + 1]) * row.beyond_two;
  const double network_time = latency + by_replicas;
  const double log_network = std::log(network_time);
  // log(T_acc^gamma + T_net^gamma) / gamma, where `share` is the compute time's part of the sum.
  const double power = std::exp(-gamma * std::abs(log_accum - log_network));
  const double log_optim = std::max(log_accum, log_network) + std::log1p(power) / gamma;
  const double share = (log_accum >= log_network ? 1 : power) / (1 + power);
  const double mean_log = share * log_accum + (1 - share) * log_network;
  const double gamma_slope = (mean_log - log_optim) / gamma;
  const double error = log_optim - row.log_optim;
  if (alone) {
    optim->Add(error, row.weight, {kAlphaC, kBetaC, kGamma},
               {share * alpha_slope, share * beta_slope, gamma_slope});
  } else {
    optim->Add(error, row.weight, {kAlphaC, kBetaC, row.network, row.network + 1, kGamma},
               {share * alpha_slope, share * beta_slope, (1 - share) * latency / network_time,
                (1 - share) * by_replicas / network_time, gamma_slope});
  }
}

template <bool curved>
Expansion Around(const Vector& point, absl::Span<const Row> rows, double smoothing) {
  const Vector values = ToValues(point);
  Squares<curved> accum;
  Squares<curved> optim;
  for (const Row& row : rows) AddRow(values, row, &accum, &optim);
  Expansion total;
  const double overlap = values[kGamma] - 1;
  total.loss = 1e-3 * overlap * overlap;
  total.gradient[kGamma] = 2e-3 * overlap;
  total.curvature[kGamma][kGamma] = 2e-3;
  AddRoot(accum, smoothing, &total);
  AddRoot(optim, smoothing, &total);
  AddPenalty(values, kAlphaN, kBetaN, &total);
  AddPenalty(values, kAlphaR, kBetaR, &total);
  return total;
}

}  // namespace

Vector ToPoint(const PerfParams& p) {
  return {std::log(p.alpha_c),
          std::log(p.beta_c),
          std::log(p.alpha_n),
          std::log(p.beta_n),
          std::log(p.alpha_r),
          std::log(p.beta_r),
          p.gamma};
}

PerfParams FromPoint(const Vector& point) {
  const Vector v = ToValues(point);
  return {v[0], v[1], v[2], v[3], v[4], v[5], v[6]};
}

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

Expansion Expand(const Vector& point, absl::Span<const Row> rows, double smoothing) {
  return Around<true>(point, rows, smoothing);
}

Slope LossAndSlope(const Vector& point, absl::Span<const Row> rows, double smoothing) {
  const Expansion at = Around<false>(point, rows, smoothing);
  return {at.loss, at.gradient};
}

}  // namespace adaptdl::goodput::internal
