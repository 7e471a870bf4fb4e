// The estimates have no bias: their means over many steps of synthetic gradients, whose true gradient and
// noise are known, are the truth within what chance explains.

#include <cmath>
#include <cstdint>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "libs/device/gradient_kernels.h"
#include "libs/elastic/gradients/noise_scale.h"

namespace adaptdl::elastic {
namespace {

using device::GradientPass;
using device::PairSums;
using device::Process;
using device::SquaredNorm;

constexpr int kSteps = 4000;
constexpr size_t kGroups = 2;
constexpr int kParameters = 48;
// Samples of the initial batch.
constexpr double kInitBatch = 16;
// By parameter group: each number of the true gradient, and standard deviation of one sample's.
constexpr double kTrue[kGroups] = {.5, .3};
constexpr double kNoise[kGroups] = {2, 4};

double TrueSqr(size_t group) { return kParameters * kTrue[group] * kTrue[group]; }
double TrueVar(size_t group) { return kParameters * kNoise[group] * kNoise[group] / kInitBatch; }

using Gradient = std::vector<std::vector<float>>;

// Draws the gradients of batches.
class Source {
 public:
  explicit Source(uint32_t seed) : random_(seed) {}

  Gradient Draw(double samples) {
    Gradient gradient(kGroups, std::vector<float>(kParameters));
    for (size_t group = 0; group < kGroups; ++group) {
      std::normal_distribution<double> normal(kTrue[group], kNoise[group] / std::sqrt(samples));
      for (float& x : gradient[group]) x = static_cast<float>(normal(random_));
    }
    return gradient;
  }

 private:
  std::mt19937_64 random_;
};

// Single estimates and their spread.
class Sample {
 public:
  void Add(double estimate) {
    ++count_;
    const double change = estimate - mean_;
    mean_ += change / count_;
    squares_ += change * (estimate - mean_);
  }
  // `correlation`: by how much the variance of the mean exceeds that of independent estimates.
  void ExpectMean(double truth, double correlation) const {
    const double standard_error = std::sqrt(correlation * squares_ / (count_ - 1) / count_);
    EXPECT_NEAR(mean_, truth, 4 * standard_error);
    // Chance explains little.
    EXPECT_LT(standard_error, .015 * truth);
  }

 private:
  int count_ = 0;
  double mean_ = 0;
  double squares_ = 0;
};

// A training job whose steps update `noise`, with every estimate noted.
class Job {
 public:
  // Forgets next to nothing, so that averages are means.
  explicit Job(int64_t period = 1) : noise_({.groups = kGroups, .smoothing = 1 - 1e-9, .period = period}) {}

  // `batches`: samples of each micro-batch, over all replicas and micro-steps.
  void StepOfMany(Source& source, const std::vector<double>& batches) {
    double samples = 0;
    for (const double batch : batches) samples += batch;
    Accumulation accumulation(kGroups);
    Gradient mean(kGroups, std::vector<float>(kParameters, 0));
    for (const double batch : batches) {
      const Gradient gradient = source.Draw(batch);
      std::vector<double> norms;
      for (size_t group = 0; group < kGroups; ++group) {
        norms.push_back(SquaredNorm<float>(gradient[group]));
        for (int i = 0; i < kParameters; ++i) {
          mean[group][i] += static_cast<float>(batch / samples * gradient[group][i]);
        }
      }
      accumulation.Add(norms, batch);
    }
    StepNorms norms = {.count = static_cast<int64_t>(batches.size()), .scale = samples / kInitBatch};
    std::vector<double> total;
    if (noise_.PlanStep(norms.count, false).norms) {
      for (const auto& group : mean) total.push_back(SquaredNorm<float>(group));
      norms.local_sqr = accumulation.local_sqr();
      norms.local_weight = accumulation.weight();
      norms.total_sqr = total;
    }
    Update(norms);
  }

  void StepOfOne(Source& source, double batch) {
    Gradient gradient = source.Draw(batch);
    StepNorms norms = {.scale = batch / kInitBatch, .previous_scale = previous_batch_ / kInitBatch};
    const NoiseScale::Plan plan = noise_.PlanStep(1, !previous_.empty());
    std::vector<double> sums[3];
    for (size_t group = 0; group < kGroups && plan.norms; ++group) {
      GradientPass<float> pass = {.gradient = absl::MakeSpan(gradient[group])};
      if (plan.compare) pass.previous = absl::MakeSpan(previous_[group]);
      const PairSums pair = Process(pass);
      sums[0].push_back(pair.current);
      sums[1].push_back(pair.previous);
      sums[2].push_back(pair.dot);
    }
    norms.total_sqr = sums[0];
    if (plan.compare) {
      norms.previous_sqr = sums[1];
      norms.previous_dot = sums[2];
    }
    Update(norms);
    previous_ = plan.keep ? gradient : Gradient();
    previous_batch_ = batch;
  }

  void ExpectTruth(double correlation = 1) const {
    for (size_t group = 0; group < kGroups; ++group) {
      SCOPED_TRACE(group);
      sqr_[group].ExpectMean(TrueSqr(group), correlation);
      var_[group].ExpectMean(TrueVar(group), correlation);
      // The averages are these means, or nearly: weights follow batch sizes.
      EXPECT_NEAR(noise_.raw_sqr_avg()[group], TrueSqr(group), .05 * TrueSqr(group));
      EXPECT_NEAR(noise_.raw_var_avg()[group], TrueVar(group), .02 * TrueVar(group));
    }
  }

  int estimates() const { return estimates_; }

 private:
  void Update(const StepNorms& norms) {
    if (noise_.Update(norms) != NoiseScale::Outcome::kUpdated) return;
    ++estimates_;
    // What a fresh average makes of this step alone.
    NoiseScale single({.groups = kGroups});
    ASSERT_EQ(single.Update(norms), NoiseScale::Outcome::kUpdated);
    for (size_t group = 0; group < kGroups; ++group) {
      sqr_[group].Add(single.raw_sqr_avg()[group]);
      var_[group].Add(single.raw_var_avg()[group]);
    }
  }

  NoiseScale noise_;
  Gradient previous_;
  double previous_batch_ = 0;
  int estimates_ = 0;
  Sample sqr_[kGroups];
  Sample var_[kGroups];
};

struct Group {
  std::string name;
  // Samples by replica and micro-step.
  std::vector<double> batches;
};
void PrintTo(const Group& group, std::ostream* out) { *out << group.name; }

class UnbiasedMean : public ::testing::TestWithParam<Group> {};

TEST_P(UnbiasedMean, FindsTheTruth) {
  Source source(11);
  Job job;
  for (int step = 0; step < kSteps; ++step) job.StepOfMany(source, GetParam().batches);
  EXPECT_EQ(job.estimates(), kSteps);
  job.ExpectTruth();
}

INSTANTIATE_TEST_SUITE_P(NoiseScale, UnbiasedMean,
                         ::testing::Values(Group{"OneReplicaTwoMicroBatches", {64, 64}},
                                           Group{"OneReplicaFourMicroBatches", std::vector<double>(4, 32)},
                                           Group{"TwoReplicas", {64, 64}},
                                           Group{"TwoReplicasThreeMicroBatches", std::vector<double>(6, 24)},
                                           Group{"EightReplicas", std::vector<double>(8, 16)},
                                           Group{"EightReplicasTwoMicroBatches", std::vector<double>(16, 8)},
                                           Group{"UnequalReplicas", {100, 10, 18}},
                                           Group{"UnevenLastSample", {33, 33, 33, 32}}),
                         [](const auto& info) { return info.param.name; });

TEST(UnbiasedPair, FindsTheTruth) {
  Source source(12);
  Job job;
  for (int step = 0; step <= kSteps; ++step) job.StepOfOne(source, 128);
  EXPECT_EQ(job.estimates(), kSteps);
  // Successive pairs share a gradient.
  job.ExpectTruth(2);
}

TEST(UnbiasedPair, FindsTheTruthWhileTheBatchSizeChanges) {
  Source source(13);
  Job job;
  for (int step = 0; step <= kSteps; ++step) job.StepOfOne(source, step % 3 == 0 ? 64 : 192);
  job.ExpectTruth(2);
}

TEST(UnbiasedMean, FindsTheTruthInOneStepOfEight) {
  Source source(14);
  Job job(8);
  for (int step = 0; step < 8 * kSteps; ++step) job.StepOfMany(source, {64, 64});
  EXPECT_EQ(job.estimates(), kSteps);
  job.ExpectTruth();
}

TEST(UnbiasedPair, FindsTheTruthInOneStepOfTwoOrEight) {
  for (const int period : {2, 8}) {
    Source source(15);
    Job job(period);
    for (int step = 0; step < period * kSteps; ++step) job.StepOfOne(source, 128);
    EXPECT_EQ(job.estimates(), kSteps);
    job.ExpectTruth();
  }
}

}  // namespace
}  // namespace adaptdl::elastic
