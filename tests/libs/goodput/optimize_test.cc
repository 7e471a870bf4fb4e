#include "libs/goodput/optimize.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "libs/goodput/speedup_table.h"
#include "tests/libs/goodput/vectors.h"

namespace adaptdl::goodput {
namespace {

GoodputFunction Anchor() { return GoodputFunction(AnchorPerf(), AnchorGrad(), 128); }

int64_t Total(Topology topology, BatchConfig batch) {
  return topology.replicas * batch.atomic_batch_size * (batch.accumulation_steps + 1);
}

TEST(OptimizeOnReferenceGrid, ReproducesTheReferenceOnAllTopologies) {
  const nlohmann::json vectors = ReadVectors("goodput_optimize.json");
  for (const auto& c : vectors["cases"]) {
    const GoodputFunction goodput(PerfFromJson(c["perf_params"]), GradFromJson(c["grad_params"]),
                                  c["init_batch_size"]);
    const BatchLimits limits = LimitsFromJson(c);
    for (size_t i = 0; i < c["num_nodes"].size(); ++i) {
      const Topology topology = {c["num_nodes"][i], c["num_replicas"][i]};
      SCOPED_TRACE(c["name"].get<std::string>() + " " + c["topology"].get<std::string>() +
                   " R=" + std::to_string(topology.replicas));
      const BatchChoice choice = OptimizeOnReferenceGrid(goodput, topology, limits);
      const auto& expected = c["master"];
      EXPECT_CLOSE(choice.goodput, expected["goodput"][i].get<double>(), 1e-12);
      EXPECT_EQ(choice.batch.atomic_batch_size, expected["atomic_bsz"][i].get<int64_t>());
      EXPECT_EQ(choice.batch.accumulation_steps, expected["accum_steps"][i].get<int64_t>());
    }
  }
}

TEST(OptimizeOnReferenceGrid, ReproducesScalarCallsAndTheGrid) {
  const nlohmann::json vectors = ReadVectors("goodput_optimize_scalar.json");
  for (const auto& c : vectors["scalar_cases"]) {
    const GoodputFunction goodput(PerfFromJson(c["perf_params"]), GradFromJson(c["grad_params"]),
                                  c["init_batch_size"]);
    const BatchChoice choice =
        OptimizeOnReferenceGrid(goodput, {c["num_nodes"], c["num_replicas"]}, LimitsFromJson(c));
    EXPECT_CLOSE(choice.goodput, c["goodput"].get<double>(), 1e-12);
    EXPECT_EQ(choice.batch.atomic_batch_size, c["atomic_bsz"].get<int64_t>());
    EXPECT_EQ(choice.batch.accumulation_steps, c["accum_steps"].get<int64_t>());
  }
  const auto& grid = vectors["geomspace_R1_R4_init128_min64_max1280"];
  for (size_t column = 0; column < 2; ++column) {
    const int replicas = column == 0 ? 1 : 4;
    const std::vector<double> candidates =
        ReferenceGrid(128, replicas, {.max_batch_size = 1280, .min_local = 64});
    ASSERT_EQ(candidates.size(), grid.size());
    for (size_t i = 0; i < candidates.size(); ++i) {
      EXPECT_CLOSE(candidates[i], grid[i][column].get<double>(), 1e-12);
    }
  }
}

TEST(OptimizeOnReferenceGrid, ReproducesTheChoicesForMeasuredApplications) {
  const auto choices = LoadPeers("optimize-check.json");
  const auto applications = LoadPeers("micro-jobs.json");
  if (!choices || !applications) GTEST_SKIP() << "the applications are not here";
  for (const auto& c : *choices) {
    SCOPED_TRACE(c.dump());
    const auto& app = (*applications)[c["app"].get<std::string>()];
    const GoodputFunction goodput(PerfFromJson(app["perf_params"]), GradFromJson(app["grad_params"]),
                                  app["init_batch_size"]);
    const BatchLimits limits = {app["max_batch_size"], app["min_local_bsz"], app["max_local_bsz"],
                                c["accumulation"]};
    const Topology topology = {c["num_nodes"], c["num_replicas"]};
    const BatchChoice reference = OptimizeOnReferenceGrid(goodput, topology, limits);
    EXPECT_CLOSE(reference.goodput, c["goodput"].get<double>(), 1e-12);
    EXPECT_EQ(reference.batch.atomic_batch_size, c["atomic_bsz"].get<int64_t>());
    EXPECT_EQ(reference.batch.accumulation_steps, c["accum_steps"].get<int64_t>());
    const int64_t total = Total(topology, reference.batch);
    if (total > limits.max_batch_size || total < goodput.init_batch_size()) continue;
    const auto ours = OptimizeBatchSize(goodput, topology, limits);
    ASSERT_TRUE(ours);
    EXPECT_GE(ours->goodput, reference.goodput * (1 - 1e-12));
  }
}

TEST(OptimizeOnReferenceGrid, KnowsTheAnchors) {
  const auto check = [](Topology topology, BatchLimits limits, double value, int64_t size) {
    const BatchChoice choice = OptimizeOnReferenceGrid(Anchor(), topology, limits);
    EXPECT_CLOSE(choice.goodput, value, 1e-11);
    EXPECT_EQ(choice.batch.atomic_batch_size, size);
    EXPECT_EQ(choice.batch.accumulation_steps, 0);
  };
  check({1, 3}, {}, 343.308914562, 43);
  check({1, 1}, {1280, 64, 256, false}, 150.936276470, 128);
  check({1, 1}, {1280, 64, 256, true}, 150.936276470, 128);
  check({4, 4}, {1024, 128, 128, false}, 184.739100091, 128);
  check({2, 8}, {1280, 64, 256, true}, 305.717198849, 64);
  check({2, 30}, {1280, 64, 256, false}, 268.337904447, 64);  // the reference's trap: 1920 samples
}

TEST(SpeedupVectors, AreRatiosOnTheReferenceGrid) {
  const nlohmann::json vectors = ReadVectors("speedup.json");
  for (const auto& c : vectors["cases"]) {
    const GoodputFunction goodput(PerfFromJson(c["perf_params"]), GradFromJson(c["grad_params"]),
                                  c["init_batch_size"]);
    const BatchLimits limits = LimitsFromJson(c);
    const double base = OptimizeOnReferenceGrid(goodput, {1, 1}, limits).goodput;
    EXPECT_CLOSE(base, c["base_goodput"].get<double>(), 1e-12);
    for (size_t i = 0; i < c["num_nodes"].size(); ++i) {
      const Topology topology = {c["num_nodes"][i], c["num_replicas"][i]};
      EXPECT_CLOSE(OptimizeOnReferenceGrid(goodput, topology, limits).goodput / base,
                   c["speedup"][i].get<double>(), 1e-12);
    }
  }
}

TEST(OptimizeBatchSize, IsNeverWorseThanTheReferenceOnItsVectors) {
  const nlohmann::json vectors = ReadVectors("goodput_optimize.json");
  int compared = 0;
  for (const auto& c : vectors["cases"]) {
    const GoodputFunction goodput(PerfFromJson(c["perf_params"]), GradFromJson(c["grad_params"]),
                                  c["init_batch_size"]);
    const BatchLimits limits = LimitsFromJson(c);
    const int64_t most = limits.max_batch_size > 0 ? limits.max_batch_size : goodput.init_batch_size();
    for (size_t i = 0; i < c["num_nodes"].size(); ++i) {
      const Topology topology = {c["num_nodes"][i], c["num_replicas"][i]};
      for (const char* version : {"master", "osdi"}) {
        const auto& theirs = c[version];
        const BatchConfig batch = {theirs["atomic_bsz"][i], theirs["accum_steps"][i]};
        const int64_t total = Total(topology, batch);
        const double value = theirs["goodput"][i];
        if (total > most || total < goodput.init_batch_size() || value == 0) continue;
        ++compared;
        const auto ours = OptimizeBatchSize(goodput, topology, limits);
        ASSERT_TRUE(ours);
        EXPECT_GE(ours->goodput, value * (1 - 1e-12)) << c["name"] << " R=" << topology.replicas;
      }
    }
  }
  EXPECT_GT(compared, 1000);
}

TEST(OptimizeBatchSize, SaysThatALimitCannotBeMet) {
  // 30 replicas with 64 samples each are more than 1280; the reference runs them all the same.
  EXPECT_FALSE(OptimizeBatchSize(Anchor(), {2, 30}, {1280, 64, 256, false}));
  EXPECT_TRUE(OptimizeBatchSize(Anchor(), {2, 20}, {1280, 64, 256, false}));
  // One replica can't take 128 samples at once when 64 are the most, unless it accumulates.
  EXPECT_FALSE(OptimizeBatchSize(Anchor(), {1, 1}, {1280, 16, 64, false}));
  const auto accumulated = OptimizeBatchSize(Anchor(), {1, 1}, {1280, 16, 64, true});
  ASSERT_TRUE(accumulated);
  EXPECT_GE(accumulated->batch.accumulation_steps, 1);
  // More replicas than samples.
  EXPECT_FALSE(OptimizeBatchSize(Anchor(), {1, 129}, {}));
}

TEST(OptimizeBatchSize, KeepsAFixedTotalInEqualShares) {
  for (const int replicas : {1, 2, 3, 5, 8, 128}) {
    const auto choice = OptimizeBatchSize(Anchor(), {1, replicas}, {});
    ASSERT_TRUE(choice) << replicas;
    EXPECT_EQ(choice->batch.atomic_batch_size, (128 + replicas - 1) / replicas);
    EXPECT_EQ(choice->batch.accumulation_steps, 0);
  }
}

TEST(OptimizeBatchSize, LetsASingleReplicaScale) {
  // Noisy gradients: larger batches cost nothing, and one replica profits from them too.
  const GoodputFunction noisy(AnchorPerf(), {0, 1}, 128);
  const auto choice = OptimizeBatchSize(noisy, {1, 1}, {.max_batch_size = 1280});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->batch.atomic_batch_size, 1280);
}

TEST(OptimizeBatchSize, PrefersTheSmallerOfEquals) {
  const GoodputFunction flat({1e-8, 1, 1e-8, 1e-8, 1e-8, 1e-8, 1}, {1, 0}, 64);
  const auto choice = OptimizeBatchSize(flat, {1, 1}, {.max_batch_size = 1024, .accumulation = true});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->batch.atomic_batch_size, 64);
  EXPECT_EQ(choice->batch.accumulation_steps, 0);
}

TEST(OptimizeBatchSize, RoundsATotalUpThatCannotBeSplitEvenly) {
  // 127 is a prime: 2 micro-steps of 64 samples.
  const auto choice =
      OptimizeBatchSize(GoodputFunction(AnchorPerf(), AnchorGrad(), 127), {1, 1},
                        {.max_batch_size = 127, .min_local = 16, .max_local = 64, .accumulation = true});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->batch.atomic_batch_size, 64);
  EXPECT_EQ(choice->batch.accumulation_steps, 1);
}

TEST(OptimizeBatchSize, EndsForTheWidestLimits) {
  // A billion accumulation steps are allowed, and larger batches only get better.
  const int64_t largest = int64_t{1} << 40;
  const GoodputFunction noisy(AnchorPerf(), {0, 1}, 128);
  for (const int64_t max_local : {int64_t{1}, int64_t{1000}, largest}) {
    const BatchLimits limits = {.max_batch_size = largest, .max_local = max_local, .accumulation = true};
    ASSERT_TRUE(Validate(limits, 128).ok());
    const auto choice = OptimizeBatchSize(noisy, {2, 16}, limits);
    ASSERT_TRUE(choice);
    EXPECT_LE(Total({2, 16}, choice->batch), largest);
    EXPECT_GE(Total({2, 16}, choice->batch), largest - 16 * max_local);
  }
}

TEST(OptimizeBatchSize, FindsThePeakWhereStepTimesBendSharply) {
  // Full overlap: the step time is the larger one of compute and network time, with a bend at 1000 samples.
  const GoodputFunction goodput({1e-8, 1e-3, 1, 0, 1, 0, 10}, {1, 1e6}, 1);
  const BatchLimits limits = {.max_batch_size = 1 << 20};
  const auto choice = OptimizeBatchSize(goodput, {1, 2}, limits);
  ASSERT_TRUE(choice);
  double most = 0;
  for (int64_t size = 1; size <= 1 << 19; ++size) most = std::max(most, goodput.Evaluate({1, 2}, {size, 0}));
  EXPECT_CLOSE(choice->goodput, most, 1e-12);
}

TEST(OptimizeBatchSize, SaysTheGoodputOfItsChoice) {
  const auto choice = OptimizeBatchSize(Anchor(), {2, 8}, {.max_batch_size = 12800});
  ASSERT_TRUE(choice);
  // To the last bit: policies compare goodputs.
  EXPECT_EQ(choice->goodput, Anchor().Evaluate({2, 8}, choice->batch));
}

// Random models and limits, small enough to try every configuration.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  double Exp10(double low, double high) {
    return std::pow(10, std::uniform_real_distribution<double>(low, high)(engine_));
  }
  int64_t Int(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  GoodputFunction Model(int64_t init) {
    const PerfParams perf = {Exp10(-4, 0), Exp10(-5, -1), Exp10(-4, 0),       Exp10(-5, -1),
                             Exp10(-4, 0), Exp10(-5, -1), 1 + Exp10(-2, 0.95)};
    return GoodputFunction(perf, {Exp10(-5, 1), Exp10(-5, 1)}, init);
  }
  BatchLimits Limits(int64_t init) {
    BatchLimits limits;
    limits.max_batch_size = Int(init, init * 20);
    limits.min_local = Int(1, std::min<int64_t>(init, 40));
    limits.max_local = Int(limits.min_local, limits.max_batch_size);
    limits.accumulation = Int(0, 1) == 1;
    return limits;
  }

 private:
  std::mt19937_64 engine_;
};

TEST(OptimizeBatchSize, IsNoWorseThanAnyFeasibleConfiguration) {
  Random random(7);
  for (int trial = 0; trial < 400; ++trial) {
    const int64_t init = random.Int(1, 100);
    const GoodputFunction goodput = random.Model(init);
    const BatchLimits limits = random.Limits(init);
    ASSERT_TRUE(Validate(limits, init).ok());
    const int replicas = static_cast<int>(random.Int(1, 40));
    const Topology topology = {static_cast<int>(random.Int(1, replicas)), replicas};
    const auto best = OptimizeBatchSize(goodput, topology, limits);
    double by_hand = 0;
    for (int64_t steps = 0; steps <= (limits.accumulation ? limits.max_batch_size : 0); ++steps) {
      if (limits.min_local * (steps + 1) * replicas > limits.max_batch_size) break;
      for (int64_t size = limits.min_local; size <= limits.max_local; ++size) {
        const int64_t total = Total(topology, {size, steps});
        if (total > limits.max_batch_size) break;
        if (total < init) continue;
        by_hand = std::max(by_hand, goodput.Evaluate(topology, {size, steps}));
      }
    }
    if (by_hand > 0) {
      ASSERT_TRUE(best) << trial;
      EXPECT_GE(best->goodput, by_hand * (limits.accumulation ? 0.995 : 1 - 1e-12)) << trial;
    }
    if (!best) continue;
    EXPECT_GE(best->batch.atomic_batch_size, limits.min_local);
    EXPECT_LE(best->batch.atomic_batch_size, limits.max_local);
    EXPECT_GE(Total(topology, best->batch), init);
    if (by_hand > 0) {
      EXPECT_LE(Total(topology, best->batch), limits.max_batch_size);
    }
    EXPECT_TRUE(limits.accumulation || best->batch.accumulation_steps == 0);
  }
}

TEST(OptimizeBatchSize, IsNeverWorseThanAFeasibleChoiceOfTheReference) {
  Random random(8);
  int compared = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    const int64_t init = random.Int(1, 4000);
    const GoodputFunction goodput = random.Model(init);
    const BatchLimits limits = random.Limits(init);
    const int replicas = static_cast<int>(random.Int(1, 200));
    const Topology topology = {static_cast<int>(random.Int(1, replicas)), replicas};
    const BatchChoice reference = OptimizeOnReferenceGrid(goodput, topology, limits);
    const int64_t total = Total(topology, reference.batch);
    if (total > limits.max_batch_size || total < init) continue;
    ++compared;
    const auto ours = OptimizeBatchSize(goodput, topology, limits);
    ASSERT_TRUE(ours) << trial;
    EXPECT_GE(ours->goodput, reference.goodput * (1 - 1e-12)) << trial;
  }
  EXPECT_GT(compared, 500);
}

TEST(OptimizeBatchSize, GrowsWithItsBounds) {
  Random random(9);
  for (int trial = 0; trial < 500; ++trial) {
    const int64_t init = random.Int(1, 500);
    const GoodputFunction goodput = random.Model(init);
    BatchLimits limits = random.Limits(init);
    limits.accumulation = false;
    const Topology topology = {1, static_cast<int>(random.Int(1, 16))};
    const auto narrow = OptimizeBatchSize(goodput, topology, limits);
    // More room for the total, in whole shares: rounding a total up to equal shares is not lost.
    limits.max_batch_size = limits.max_batch_size * 2 + topology.replicas;
    limits.max_local = limits.max_local * 2;
    limits.min_local = std::max<int64_t>(1, limits.min_local / 2);
    const auto wide = OptimizeBatchSize(goodput, topology, limits);
    if (!narrow) continue;
    ASSERT_TRUE(wide);
    EXPECT_GE(wide->goodput, narrow->goodput * (1 - 1e-12)) << trial;
  }
}

TEST(OptimizeBatchSize, DoesNotDependOnTheUnitOfTime) {
  Random random(10);
  for (int trial = 0; trial < 200; ++trial) {
    const int64_t init = random.Int(1, 500);
    const GoodputFunction goodput = random.Model(init);
    PerfParams perf = goodput.perf();
    for (double* time :
         {&perf.alpha_c, &perf.beta_c, &perf.alpha_n, &perf.beta_n, &perf.alpha_r, &perf.beta_r}) {
      *time *= 4;
    }
    const GoodputFunction slower(perf, goodput.grad(), init);
    const BatchLimits limits = random.Limits(init);
    const auto one = OptimizeBatchSize(goodput, {2, 6}, limits);
    const auto other = OptimizeBatchSize(slower, {2, 6}, limits);
    ASSERT_EQ(one.has_value(), other.has_value());
    if (one) {
      EXPECT_CLOSE(other->goodput * 4, one->goodput, 1e-9);
    }
  }
}

TEST(Validate, NamesTheLimitThatCannotBe) {
  EXPECT_TRUE(Validate(BatchLimits{}, 32).ok());
  EXPECT_FALSE(Validate(BatchLimits{}, 0).ok());
  EXPECT_FALSE(Validate(BatchLimits{.max_batch_size = 16}, 32).ok());
  EXPECT_FALSE(Validate(BatchLimits{.min_local = 64}, 32).ok());
  EXPECT_FALSE(Validate(BatchLimits{.min_local = 16, .max_local = 8}, 32).ok());
  EXPECT_FALSE(Validate(BatchLimits{.max_batch_size = int64_t{1} << 62}, 32).ok());
  const absl::Status status = Validate(BatchLimits{.max_batch_size = -4}, 32);
  EXPECT_NE(status.message().find("max_batch_size"), absl::string_view::npos);
}

TEST(SpeedupTable, HasARowForOneNodeAndOneForSeveral) {
  const SpeedupTable table = SpeedupTable::Build(Anchor(), {}, 8);
  EXPECT_EQ(table.max_replicas(), 8);
  EXPECT_EQ(table.At(1, 0), 0);
  EXPECT_DOUBLE_EQ(table.At(1, 1), 1);
  EXPECT_GT(table.At(1, 4), table.At(2, 4));
  EXPECT_EQ(table.At(2, 4), table.At(3, 4));
  EXPECT_CLOSE(table.At(1, 3), 343.308914562 / 150.936276470, 1e-9);
  EXPECT_EQ(table.At(1, 99), table.At(1, 8));
}

TEST(SpeedupTable, CountsFromTheSmallestSizeThatCanBeFed) {
  // 64 samples at most per replica: 128 need two.
  const SpeedupTable table = SpeedupTable::Build(Anchor(), {.max_local = 64}, 4);
  EXPECT_EQ(table.At(1, 1), 0);
  EXPECT_DOUBLE_EQ(table.At(1, 2), 2);
  EXPECT_GT(table.At(1, 3), 2);
  EXPECT_EQ(SpeedupTable::Build(Anchor(), {.min_local = 128}, 4).At(1, 2), 0);
}

TEST(SpeedupTable, HasTheBaseThatItIsGiven) {
  const SpeedupTable own = SpeedupTable::Build(Anchor(), {}, 4);
  EXPECT_CLOSE(own.base_goodput(), 150.936276470, 1e-9);
  // A GPU type that computes twice as fast, against the first one's base.
  const auto perf = ScaleToGpuType(AnchorPerf(), 2);
  ASSERT_TRUE(perf.ok());
  const GoodputFunction faster(*perf, AnchorGrad(), 128);
  const SpeedupTable table = SpeedupTable::Build(faster, {}, 4, own.base_goodput());
  EXPECT_EQ(table.base_goodput(), own.base_goodput());
  EXPECT_CLOSE(table.At(1, 1), 2, 1e-6);
  const SpeedupTable alone = SpeedupTable::Build(faster, {}, 4);
  for (int replicas = 1; replicas <= 4; ++replicas) {
    EXPECT_CLOSE(table.At(1, replicas) * own.base_goodput(), alone.At(1, replicas) * alone.base_goodput(),
                 1e-12);
  }
}

TEST(SpeedupTable, IsTheBestGoodputByTheBase) {
  const BatchLimits limits = {
      .max_batch_size = 12800, .min_local = 16, .max_local = 64, .accumulation = true};
  const SpeedupTable table = SpeedupTable::Build(Anchor(), limits, 16);
  for (int replicas = 2; replicas <= 16; ++replicas) {
    for (const int nodes : {1, 2}) {
      const auto choice = OptimizeBatchSize(Anchor(), {nodes, replicas}, limits);
      ASSERT_TRUE(choice);
      EXPECT_CLOSE(table.At(nodes, replicas) * table.base_goodput(), choice->goodput, 1e-12);
    }
  }
}

TEST(SpeedupTable, FromRowsSaysWhatItWasGiven) {
  const SpeedupTable table = SpeedupTable::FromRows({0, 2, 3}, {0, 2, 2.5});
  EXPECT_EQ(table.max_replicas(), 2);
  EXPECT_EQ(table.At(1, 2), 3);
  EXPECT_EQ(table.At(3, 2), 2.5);
  EXPECT_EQ(table.At(2, 9), 2.5);
}

TEST(SpeedupTable, LinearAndEmpty) {
  EXPECT_EQ(SpeedupTable::Linear(3).At(2, 3), 3);
  EXPECT_EQ(SpeedupTable::Linear(3).base_goodput(), 0);
  EXPECT_EQ(SpeedupTable().At(1, 1), 0);
}

}  // namespace
}  // namespace adaptdl::goodput
