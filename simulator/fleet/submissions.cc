#include "simulator/fleet/submissions.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "simulator/fleet/model_kinds.h"

namespace adaptdl::simulator {
namespace {

constexpr double kDay = 24 * 3600;
constexpr double kBusiest = 15 * 3600;
constexpr double kDailyWave = 0.4;
constexpr double kWeekend = 0.6;
constexpr double kWorkingDay = 7 / (5 + 2 * kWeekend);
constexpr double kMostWave = kWorkingDay * (1 + kDailyWave);

constexpr double kSigma = 1.6;
constexpr double kMostSigmas = 3;

// Parts that add up to 1, as their sums.
std::vector<double> Cumulative(std::vector<double> parts) {
  double sum = 0;
  for (double& part : parts) part = sum += part;
  for (double& part : parts) part /= sum;
  return parts;
}

int Pick(const std::vector<double>& cumulative, double uniform) {
  const auto found = std::upper_bound(cumulative.begin(), cumulative.end() - 1, uniform);
  return static_cast<int>(found - cumulative.begin());
}

std::vector<double> ZipfParts(int tenants) {
  std::vector<double> parts;
  for (int tenant = 0; tenant < tenants; ++tenant) parts.push_back(1.0 / (tenant + 1));
  return Cumulative(std::move(parts));
}

std::vector<double> KindParts() {
  std::vector<double> parts;
  for (const ModelKind& kind : ModelKinds()) parts.push_back(kind.part);
  return Cumulative(std::move(parts));
}

double NormalDistribution(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

}  // namespace

double Wave(double time) {
  const double pi = std::acos(-1.0);
  const int day = static_cast<int>(std::fmod(std::floor(time / kDay), 7));
  const double of_day = 1 + kDailyWave * std::cos(2 * pi * (time - kBusiest) / kDay);
  return kWorkingDay * (day >= 5 ? kWeekend : 1) * of_day;
}

double MeanSoloSeconds() {
  // Of a log-normal distribution that is cut off on both sides.
  const double kept = NormalDistribution(kMostSigmas) - NormalDistribution(-kMostSigmas);
  const double weighted =
      NormalDistribution(kMostSigmas - kSigma) - NormalDistribution(-kMostSigmas - kSigma);
  double hours = 0;
  for (const ModelKind& kind : ModelKinds()) hours += kind.part * kind.median_hours;
  return hours * 3600 * std::exp(kSigma * kSigma / 2) * weighted / kept;
}

SubmissionStream::SubmissionStream(const SubmissionOptions& options)
    : most_per_second_(options.jobs_per_hour / 3600 * kMostWave),
      random_(options.seed),
      tenants_(ZipfParts(options.tenants)),
      kinds_(KindParts()) {}

double SubmissionStream::TenantPart(int tenant) const {
  return tenants_[tenant] - (tenant == 0 ? 0 : tenants_[tenant - 1]);
}

Submission SubmissionStream::Next() {
  // Thinning: as if it were the busiest time always, and then some of them are left out.
  do {
    time_ += random_.Exponential(1 / most_per_second_);
  } while (random_.Uniform() * kMostWave >= Wave(time_));
  Submission submission{.time = time_, .number = count_++};
  submission.tenant = Pick(tenants_, random_.Uniform());
  submission.kind = Pick(kinds_, random_.Uniform());
  double sigmas = random_.Normal();
  while (std::abs(sigmas) > kMostSigmas) sigmas = random_.Normal();
  submission.solo_seconds = ModelKinds()[submission.kind].median_hours * 3600 * std::exp(kSigma * sigmas);
  return submission;
}

}  // namespace adaptdl::simulator
