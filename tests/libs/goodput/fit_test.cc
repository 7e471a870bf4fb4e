#include "libs/goodput/fit.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/goodput/fit_loss.h"
#include "tests/libs/goodput/vectors.h"

namespace adaptdl::goodput {
namespace {

std::vector<Measurement> MeasurementsFromJson(const nlohmann::json& j) {
  std::vector<Measurement> measurements;
  for (size_t i = 0; i < j["num_nodes"].size(); ++i) {
    measurements.push_back({j["num_nodes"][i], j["num_replicas"][i], j["atomic_bsz"][i],
                            j["accum_step_time"][i], j["optim_step_time"][i]});
  }
  return measurements;
}

// What a job with these parameters would measure.
std::vector<Measurement> Measure(const PerfParams& perf, const std::vector<Topology>& topologies,
                                 const std::vector<int64_t>& batch_sizes) {
  std::vector<Measurement> measurements;
  for (const Topology topology : topologies) {
    for (const int64_t size : batch_sizes) {
      measurements.push_back({topology.nodes, topology.replicas, size,
                              AccumTime(perf, static_cast<double>(size)),
                              OptimTime(perf, topology, static_cast<double>(size))});
    }
  }
  return measurements;
}

TEST(FitLoss, ReproducesTheReference) {
  const nlohmann::json vectors = ReadVectors("fit_perf_params.json");
  const auto& exact = vectors["objective_gradient"];
  const std::vector<Measurement> measurements = MeasurementsFromJson(exact);
  ASSERT_FALSE(exact["points"].empty());
  for (const auto& point : exact["points"]) {
    PerfGradient gradient;
    EXPECT_CLOSE(FitLoss(PerfFromJson(point["params"]), measurements, &gradient),
                 point["objective"].get<double>(), 1e-9);
    for (int i = 0; i < 7; ++i) {
      const double expected = point["gradient"][i];
      EXPECT_NEAR(gradient[i], expected, 1e-9 * std::max(1.0, std::abs(expected))) << i;
    }
  }
}

TEST(FitLoss, SlopesAreTheSameWithoutCurvature) {
  const PerfParams perf = {0.1, 0.01, 0.2, 0.02, 0.05, 0.005, 1.5};
  const auto rows = internal::ToRows(Measure(perf, {{1, 1}, {1, 2}, {2, 5}}, {16, 64}));
  internal::Vector point = internal::ToPoint(perf);
  for (double& coordinate : point) coordinate += 0.3;
  for (const double smoothing : {0.0, 1e-2}) {
    const internal::Expansion expansion = internal::Expand(point, rows, smoothing);
    const internal::Slope slope = internal::LossAndSlope(point, rows, smoothing);
    EXPECT_EQ(slope.loss, expansion.loss);
    EXPECT_EQ(slope.gradient, expansion.gradient);
  }
}

TEST(FitPerfParams, IsNeverWorseThanTheReference) {
  const nlohmann::json vectors = ReadVectors("fit_perf_params.json");
  for (const auto& c : vectors["cases"]) {
    SCOPED_TRACE(c["name"].get<std::string>());
    const std::vector<Measurement> measurements = MeasurementsFromJson(c);
    const auto fitted = FitPerfParams(measurements);
    ASSERT_TRUE(fitted.ok()) << fitted.status();
    EXPECT_TRUE(Validate(*fitted).ok());
    const double reference = FitLoss(PerfFromJson(c["fitted"]), measurements, nullptr);
    EXPECT_CLOSE(reference, c["obj_at_fitted"].get<double>(), 1e-9);
    EXPECT_LE(FitLoss(*fitted, measurements, nullptr), reference * (1 + 1e-6) + 1e-7);
  }
}

TEST(FitPerfParams, IsNeverWorseThanTheReferenceOnMeasuredProfiles) {
  const auto profiles = LoadPeers("fit-check.json");
  if (!profiles) GTEST_SKIP() << "the profiles are not here";
  for (const auto& c : *profiles) {
    SCOPED_TRACE(c["app"].get<std::string>() + " " + std::to_string(c["n"].get<int>()));
    const std::vector<Measurement> measurements = MeasurementsFromJson(c);
    const auto fitted = FitPerfParams(measurements);
    ASSERT_TRUE(fitted.ok()) << fitted.status();
    const double reference = c["loss"];
    EXPECT_LE(FitLoss(*fitted, measurements, nullptr), reference * (1 + 1e-6) + 1e-7);
  }
}

// All placements of an application's trace: a digit of "placement" is a node's replicas.
std::vector<Measurement> MeasurementsFromTrace(const std::string& path) {
  std::vector<Measurement> measurements;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string placement, size, step, sync;
    std::getline(std::getline(std::getline(std::getline(fields, placement, ','), size, ','), step, ','),
                 sync);
    int replicas = 0;
    for (const char digit : placement) replicas += digit - '0';
    measurements.push_back({static_cast<int>(placement.size()), replicas, std::stoll(size),
                            std::stod(step) - std::stod(sync), std::stod(step)});
  }
  return measurements;
}

TEST(FitPerfParams, IsNeverWorseThanTheReferenceOnWholeTraces) {
  const auto applications = LoadPeers("micro-jobs.json");
  if (!applications) GTEST_SKIP() << "the traces are not here";
  for (const auto& [name, application] : applications->items()) {
    if (!application.contains("fit_points")) continue;
    SCOPED_TRACE(name);
    const auto measurements =
        MeasurementsFromTrace(PeersFolder() + "/pollux/traces/" + name + "/placements.csv");
    ASSERT_EQ(measurements.size(), application["fit_points"].get<size_t>());
    const auto fitted = FitPerfParams(measurements);
    ASSERT_TRUE(fitted.ok()) << fitted.status();
    const double reference = FitLoss(PerfFromJson(application["perf_params"]), measurements, nullptr);
    EXPECT_LE(FitLoss(*fitted, measurements, nullptr), reference * (1 + 1e-6));
  }
}

TEST(FitPerfParams, FindsTheModelBehindNoiseFreeTimes) {
  const PerfParams truth = {.121, .00568, .0236, .00634, .0118, .00317, 1.14};
  const auto measurements = Measure(truth, {{1, 1}, {1, 2}, {1, 4}, {2, 4}, {4, 16}}, {32, 64, 128, 256});
  const auto fitted = FitPerfParams(measurements);
  ASSERT_TRUE(fitted.ok());
  // The penalties pull a little at the truth; the predictions are what counts.
  for (const Measurement& m : measurements) {
    const double size = static_cast<double>(m.atomic_batch_size);
    EXPECT_CLOSE(AccumTime(*fitted, size), m.accum_time, 0.01);
    EXPECT_CLOSE(OptimTime(*fitted, {m.nodes, m.replicas}, size), m.optim_time, 0.01);
  }
  EXPECT_LE(FitLoss(*fitted, measurements, nullptr), FitLoss(truth, measurements, nullptr) + 1e-7);
}

TEST(FitPerfParams, FixesWhatWasNotMeasured) {
  const PerfParams truth = {.1, .004, .05, .01, .02, .003, 1.5};
  const auto single = FitPerfParams(Measure(truth, {{1, 1}}, {32}));
  ASSERT_TRUE(single.ok());
  EXPECT_DOUBLE_EQ(single->alpha_c, AccumTime(truth, 32) / 2);
  EXPECT_DOUBLE_EQ(single->alpha_r, 1e-8);
  EXPECT_DOUBLE_EQ(single->alpha_n, 1.1e-8);

  const auto one_node = FitPerfParams(Measure(truth, {{1, 1}, {1, 2}, {1, 4}}, {32, 64}));
  ASSERT_TRUE(one_node.ok());
  EXPECT_DOUBLE_EQ(one_node->alpha_n, 1.1 * one_node->alpha_r);
  EXPECT_DOUBLE_EQ(one_node->beta_n, 1.1 * one_node->beta_r);

  const auto two_nodes = FitPerfParams(Measure(truth, {{1, 1}, {2, 2}}, {32, 64}));
  ASSERT_TRUE(two_nodes.ok());
  EXPECT_DOUBLE_EQ(two_nodes->alpha_r, 1e-8);
  EXPECT_DOUBLE_EQ(two_nodes->beta_r, 1e-8);
  EXPECT_DOUBLE_EQ(two_nodes->beta_n, 1e-8);
  EXPECT_GT(two_nodes->alpha_n, 1e-6);
}

TEST(FitPerfParams, RefusesWhatIsNoMeasurement) {
  EXPECT_EQ(FitPerfParams({}).status().code(), absl::StatusCode::kInvalidArgument);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Measurement& bad : std::vector<Measurement>{{1, 1, 32, 0, 1},
                                                         {1, 1, 32, 1, nan},
                                                         {1, 1, 32, -1, 1},
                                                         {2, 1, 32, 1, 1},
                                                         {0, 1, 32, 1, 1},
                                                         {1, 1, 0, 1, 1},
                                                         {1, 1, 32, 1e-10, 1},
                                                         {1, 1, 32, 1, 1e7},
                                                         {1, 1, int64_t{1} << 50, 1, 1},
                                                         {1, 1, 32, 1, 1, 0}}) {
    EXPECT_EQ(FitPerfParams({bad}).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(FitPerfParams, IsDeterministicAndScalesWithTime) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> noise(0, 0.05);
  const PerfParams truth = {.1, .004, .05, .01, .02, .003, 1.5};
  auto measurements = Measure(truth, {{1, 1}, {1, 2}, {1, 4}, {2, 8}}, {16, 32, 64});
  for (Measurement& m : measurements) {
    m.accum_time *= std::exp(noise(random));
    m.optim_time *= std::exp(noise(random));
  }
  const auto first = FitPerfParams(measurements);
  const auto second = FitPerfParams(measurements);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->alpha_c, second->alpha_c);
  EXPECT_EQ(first->gamma, second->gamma);
  const double loss = FitLoss(*first, measurements, nullptr);
  for (Measurement& m : measurements) {
    m.accum_time *= 10;
    m.optim_time *= 10;
  }
  const auto slower = FitPerfParams(measurements);
  ASSERT_TRUE(slower.ok());
  EXPECT_CLOSE(FitLoss(*slower, measurements, nullptr), loss, 1e-3);
}

TEST(RecencyWeight, HalvesWithEveryHalfLife) {
  const absl::Time now = absl::FromUnixSeconds(1000000);
  const absl::Duration hour = absl::Hours(1);
  EXPECT_DOUBLE_EQ(RecencyWeight(now, now, hour), 1);
  EXPECT_DOUBLE_EQ(RecencyWeight(now - hour, now, hour), 0.5);
  EXPECT_DOUBLE_EQ(RecencyWeight(now - 3 * hour, now, hour), 0.125);
  // A clock that was ahead is no reason to count more; old news still count.
  EXPECT_DOUBLE_EQ(RecencyWeight(now + hour, now, hour), 1);
  EXPECT_DOUBLE_EQ(RecencyWeight(absl::InfinitePast(), now, hour), 1e-6);
  EXPECT_DOUBLE_EQ(RecencyWeight(now - hour, now, absl::InfiniteDuration()), 1);
}

TEST(RecencyWeight, LetsTheFitFollowAJobThatGotSlower) {
  const PerfParams before = {.1, .004, .05, .01, .02, .003, 1.5};
  PerfParams after = before;
  after.alpha_c *= 2;
  after.beta_c *= 2;
  const absl::Time now = absl::FromUnixSeconds(1000000);
  std::vector<Measurement> measurements = Measure(before, {{1, 1}, {1, 2}}, {32, 64});
  for (Measurement& m : measurements) {
    m.weight = RecencyWeight(now - absl::Hours(8), now, absl::Minutes(30));
  }
  for (Measurement& m : Measure(after, {{1, 1}, {1, 2}}, {32, 64})) measurements.push_back(m);
  const auto fitted = FitPerfParams(measurements);
  ASSERT_TRUE(fitted.ok());
  EXPECT_CLOSE(AccumTime(*fitted, 64), AccumTime(after, 64), 0.05);
}

TEST(FitPerfParams, HeavyMeasurementsCountMore) {
  std::vector<Measurement> measurements = {{1, 1, 32, 1.0, 1.0, 1.0},
                                           {1, 1, 64, 2.0, 2.0, 1.0},
                                           {1, 1, 32, 2.0, 2.0, 100.0},
                                           {1, 1, 64, 4.0, 4.0, 100.0}};
  const auto fitted = FitPerfParams(measurements);
  ASSERT_TRUE(fitted.ok());
  EXPECT_CLOSE(AccumTime(*fitted, 64), 4.0, 0.05);
}

}  // namespace
}  // namespace adaptdl::goodput
