#include "libs/pastwork/past_work.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

namespace adaptdl::pastwork {
namespace {

// What the scatter of logarithms is guessed to be, and how many jobs that guess counts for.
constexpr double kGuessedDeviation = 0.5;
constexpr double kGuessCounts = 1;
// A scatter beyond this says no less.
constexpr double kMostDeviation = 5;
// From so many deviations above the mean on, the tails of the normal distribution are taken by their asymptote.
constexpr double kTail = 5;
// The stretches d that are tried end so many deviations apart, from the lowest to the highest.
constexpr double kStep = 0.25;
constexpr double kLowest = -4;
constexpr double kHighest = 4;

// Chance of a standard normal number above z.
double Above(double z) { return std::erfc(z / std::numbers::sqrt2) / 2; }

std::optional<double> Sensible(double length) {
  return std::isfinite(length) && length > 0 ? std::optional<double>(length) : std::nullopt;
}

double Density(double z) { return std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi); }

}  // namespace

void PastWork::Add(double work) {
  if (!(work > 0) || !std::isfinite(work)) return;
  ++jobs;
  const double off = std::log(work) - mean_log;
  mean_log += off / jobs;
  squares_log += off * (std::log(work) - mean_log);
}

std::optional<double> PastWork::Length(double done) const {
  if (jobs <= 0 || !std::isfinite(mean_log) || !(squares_log >= 0)) return std::nullopt;
  const double variance = (kGuessCounts * kGuessedDeviation * kGuessedDeviation + squares_log) /
                          (kGuessCounts + jobs - 1) * (1 + 1.0 / jobs);
  const double deviation = std::min(std::sqrt(variance), kMostDeviation);
  done = std::max(done, 0.0);
  const double z = std::max((std::log(done) - mean_log) / deviation, 2 * kLowest);
  // In the tail the shortest stretch is the best: the reciprocal of the hazard rate.
  if (z > kTail) return Sensible(done * deviation * z / (z * z + 1));
  // Both numerator and denominator are times P(W > w).
  const double there = Above(z);
  const double mean = std::exp(mean_log + deviation * deviation / 2);
  double least =
      z > kLowest ? done * deviation * there / Density(z) : std::numeric_limits<double>::infinity();
  const double first = std::max(z + kStep, kLowest);
  const int stretches = static_cast<int>((std::max(kHighest, z + 1) - first) / kStep) + 1;
  for (int i = 0; i < stretches; ++i) {
    const double end = first + kStep * i;
    const double until = std::exp(mean_log + deviation * end);
    const double ends = there - Above(end);
    const double work =
        mean * (Above(z - deviation) - Above(end - deviation)) + until * Above(end) - done * there;
    if (ends > 0 && work > 0) least = std::min(least, work / ends);
  }
  return Sensible(least);
}

}  // namespace adaptdl::pastwork
