#include "libs/goodput/model.h"

#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "gtest/gtest.h"
#include "tests/libs/goodput/vectors.h"

namespace adaptdl::goodput {
namespace {

TEST(Model, ReproducesTheReferenceEverywhere) {
  const nlohmann::json vectors = ReadVectors("goodput_evaluate.json");
  for (const auto& c : vectors["cases"]) {
    const PerfParams perf = PerfFromJson(c["perf_params"]);
    const GoodputFunction goodput(perf, GradFromJson(c["grad_params"]), c["init_batch_size"]);
    for (size_t i = 0; i < c["num_nodes"].size(); ++i) {
      SCOPED_TRACE(c["name"].get<std::string>() + " " + std::to_string(i));
      const Topology topology = {c["num_nodes"][i], c["num_replicas"][i]};
      const BatchConfig batch = {c["atomic_bsz"][i], c["accum_steps"][i]};
      const double size = static_cast<double>(batch.atomic_batch_size);
      const double total = topology.replicas * size * static_cast<double>(batch.accumulation_steps + 1);
      EXPECT_CLOSE(AccumTime(perf, size), c["accum_time"][i].get<double>(), 1e-12);
      EXPECT_CLOSE(NetworkTime(perf, topology), c["network_time"][i].get<double>(), 1e-12);
      // A logarithm near 0 is compared by what it stands for.
      EXPECT_CLOSE(OptimTime(perf, topology, size), std::exp(c["log_optim_time"][i].get<double>()), 1e-12);
      EXPECT_CLOSE(goodput.Throughput(topology, batch), c["throughput"][i].get<double>(), 1e-12);
      EXPECT_CLOSE(goodput.Efficiency(total), c["efficiency"][i].get<double>(), 1e-12);
      EXPECT_CLOSE(goodput.Evaluate(topology, batch), c["goodput"][i].get<double>(), 1e-12);
    }
  }
}

TEST(Model, KnowsAPointByHand) {
  const GoodputFunction goodput(AnchorPerf(), AnchorGrad(), 128);
  EXPECT_CLOSE(goodput.Evaluate({1, 3}, {43, 0}), 343.308914562, 1e-11);
  EXPECT_CLOSE(goodput.Evaluate({1, 1}, {128, 0}), 150.936276470, 1e-11);
  EXPECT_DOUBLE_EQ(goodput.Efficiency(128), 1.0);
}

TEST(Model, EfficiencyIsAShareFromTheInitialBatchOn) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> magnitude(-8, 8);
  for (int i = 0; i < 2000; ++i) {
    const GradParams grad = {std::pow(10, magnitude(random)), std::pow(10, magnitude(random))};
    const GoodputFunction goodput(AnchorPerf(), grad, 128);
    double previous = 1;
    for (double total = 128; total < 1e7; total *= 1.7) {
      const double efficiency = goodput.Efficiency(total);
      EXPECT_GT(efficiency, 0);
      EXPECT_LE(efficiency, previous * (1 + 1e-12));
      previous = efficiency;
    }
  }
}

TEST(Model, ExtremesOfTheNoiseScale) {
  EXPECT_DOUBLE_EQ(GoodputFunction(AnchorPerf(), {0, 1}, 100).Efficiency(700), 1.0);
  EXPECT_DOUBLE_EQ(GoodputFunction(AnchorPerf(), {1, 0}, 100).Efficiency(400), 0.25);
  EXPECT_DOUBLE_EQ(GoodputFunction(AnchorPerf(), {0, 0}, 100).Efficiency(400), 0.25);
}

TEST(Model, TimeScalesThroughput) {
  PerfParams slow = AnchorPerf();
  for (double* time :
       {&slow.alpha_c, &slow.beta_c, &slow.alpha_n, &slow.beta_n, &slow.alpha_r, &slow.beta_r}) {
    *time *= 8;
  }
  const GoodputFunction fast(AnchorPerf(), AnchorGrad(), 128);
  const GoodputFunction eight_times_slower(slow, AnchorGrad(), 128);
  EXPECT_CLOSE(eight_times_slower.Evaluate({2, 5}, {40, 1}), fast.Evaluate({2, 5}, {40, 1}) / 8, 1e-12);
}

TEST(Model, NetworkTimeNeverVanishes) {
  PerfParams perf = AnchorPerf();
  EXPECT_GT(NetworkTime(perf, {1, 1}), 0);
  EXPECT_LT(NetworkTime(perf, {1, 1}), 1e-7);
  EXPECT_DOUBLE_EQ(NetworkTime(perf, {2, 4}), .0236 + 2 * .00634);
  EXPECT_DOUBLE_EQ(NetworkTime(perf, {1, 4}), .0118 + 2 * .00317);
}

TEST(ScaleToGpuType, ChangesComputeTimesOnly) {
  const auto scaled = ScaleToGpuType(AnchorPerf(), 2.5);
  ASSERT_TRUE(scaled.ok());
  const GoodputFunction known(AnchorPerf(), AnchorGrad(), 128);
  const GoodputFunction other(*scaled, AnchorGrad(), 128);
  EXPECT_CLOSE(other.Throughput({1, 1}, {64, 0}), 2.5 * known.Throughput({1, 1}, {64, 0}), 1e-6);
  EXPECT_DOUBLE_EQ(NetworkTime(*scaled, {2, 4}), NetworkTime(AnchorPerf(), {2, 4}));
  // The same network under faster GPUs weighs more.
  EXPECT_LT(other.Throughput({2, 4}, {64, 0}), 2.5 * known.Throughput({2, 4}, {64, 0}));
  EXPECT_GT(other.Throughput({2, 4}, {64, 0}), known.Throughput({2, 4}, {64, 0}));
}

TEST(ScaleToGpuType, RefusesWhatIsNoRatio) {
  for (const double ratio : {0.0, -1.0, 1e-30, 1e30, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(ScaleToGpuType(AnchorPerf(), ratio).status().code(), absl::StatusCode::kInvalidArgument)
        << ratio;
  }
}

TEST(Validate, NamesTheFieldThatCannotBe) {
  EXPECT_TRUE(Validate(AnchorPerf()).ok());
  PerfParams perf = AnchorPerf();
  perf.beta_n = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(Validate(perf).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(Validate(perf).message().find("beta_n"), absl::string_view::npos);
  perf = AnchorPerf();
  perf.alpha_c = -1;
  EXPECT_FALSE(Validate(perf).ok());
  perf = AnchorPerf();
  perf.gamma = 0.5;
  EXPECT_FALSE(Validate(perf).ok());
  perf.gamma = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(Validate(perf).ok());
  perf = AnchorPerf();
  perf.alpha_c = perf.beta_c = 0;
  EXPECT_FALSE(Validate(perf).ok());
  EXPECT_TRUE(Validate(AnchorGrad()).ok());
  EXPECT_FALSE(Validate(GradParams{-1, 1}).ok());
  EXPECT_FALSE(Validate(GradParams{1, std::numeric_limits<double>::quiet_NaN()}).ok());
}

}  // namespace
}  // namespace adaptdl::goodput
