#include "libs/elastic/job/batch_size_controller.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/goodput/model.h"
#include "libs/goodput/optimize.h"
#include "nlohmann/json.hpp"
#include "tests/vectors/vectors.h"

namespace adaptdl::elastic {
namespace {

using goodput::BatchConfig;
using goodput::BatchLimits;
using goodput::GoodputFunction;
using goodput::GradParams;
using goodput::PerfParams;

constexpr PerfParams kPerf = {.alpha_c = 0.121,
                              .beta_c = 0.00568,
                              .alpha_n = 0.0236,
                              .beta_n = 0.00634,
                              .alpha_r = 0.0118,
                              .beta_r = 0.00317,
                              .gamma = 1.14};
constexpr BatchLimits kLimits = {
    .max_batch_size = 1280, .min_local = 64, .max_local = 256, .accumulation = true};
constexpr GradParams kQuiet = {.sqr = 0.00136, .var = 0.000502};
constexpr GradParams kNoisy = {.sqr = 0.00136, .var = 0.502};

int64_t Total(const BatchConfig& batch) { return batch.atomic_batch_size * (batch.accumulation_steps + 1); }

// The reference's decisions, one after the other. Ours change when its do, and are at least as good: it tries
// 50 sizes.
TEST(BatchSizeController, ChangesWhenTheReferenceDoes) {
  const nlohmann::json vectors = ReadVectors("dataloader.json");
  BatchSizeController controller({.nodes = 1, .replicas = 1});
  BatchConfig current = {128, 0};
  BatchConfig reference = current;
  int decisions = 0;
  for (const auto& decision : vectors.at("results").at("reopt").at(0)) {
    SCOPED_TRACE(decision.at("tag"));
    const bool restarted = decision.at("tag").get<std::string>().find("restart") != std::string::npos;
    controller.SetBatch(128, kLimits, Total(current),
                        restarted ? std::nullopt : std::optional<BatchConfig>(current));
    if (!decision.at("perf").is_null()) {
      const auto perf = decision.at("perf").get<std::vector<double>>();
      controller.SetPerfParams({perf[0], perf[1], perf[2], perf[3], perf[4], perf[5], perf[6]});
      controller.SetGradParams({decision.at("grad").at(0), decision.at("grad").at(1)});
    }
    const auto chosen = controller.Decide();
    const BatchConfig expected = {decision.at("atomic"), decision.at("accum")};
    const bool reference_changed = restarted || Total(expected) != Total(reference);
    EXPECT_EQ(chosen.has_value(), reference_changed);
    if (chosen) {
      current = chosen->batch;
      const GoodputFunction goodput(kPerf, *controller.grad_params(), 128);
      EXPECT_GE(goodput.Evaluate({}, current), goodput.Evaluate({}, expected) * (1 - 1e-12));
    }
    reference = expected;
    ++decisions;
  }
  EXPECT_EQ(decisions, 8);
}

TEST(DecideBatchSize, StaysWithoutAClearAdvantage) {
  const GoodputFunction goodput(kPerf, kNoisy, 128);
  const goodput::Topology topology = {.nodes = 2, .replicas = 4};
  const BatchConfig best = goodput::OptimizeBatchSize(goodput, topology, kLimits)->batch;
  EXPECT_EQ(DecideBatchSize(goodput, topology, kLimits, best), std::nullopt);
  const BatchConfig near = {best.atomic_batch_size - 8, best.accumulation_steps};
  EXPECT_EQ(DecideBatchSize(goodput, topology, kLimits, near), std::nullopt);
  // Nothing was chosen for this number of replicas: no reason to stay.
  EXPECT_TRUE(DecideBatchSize(goodput, topology, kLimits, std::nullopt).has_value());
}

TEST(DecideBatchSize, GoesBothWays) {
  const goodput::Topology topology = {.nodes = 1, .replicas = 1};
  const auto up = DecideBatchSize({kPerf, kNoisy, 128}, topology, kLimits, BatchConfig{128, 0});
  ASSERT_TRUE(up.has_value());
  EXPECT_GT(Total(*up), 128);
  const auto down = DecideBatchSize({kPerf, kQuiet, 128}, topology, kLimits, *up);
  ASSERT_TRUE(down.has_value());
  EXPECT_EQ(Total(*down), 128);
}

// A bound of the memory that was learnt.
TEST(DecideBatchSize, LeavesABatchThatIsNoLongerAllowed) {
  const GoodputFunction goodput(kPerf, kNoisy, 128);
  const goodput::Topology topology = {.nodes = 2, .replicas = 4};
  const BatchConfig best = goodput::OptimizeBatchSize(goodput, topology, kLimits)->batch;
  BatchLimits tighter = kLimits;
  tighter.max_local = best.atomic_batch_size - 1;
  const auto chosen = DecideBatchSize(goodput, topology, tighter, best);
  ASSERT_TRUE(chosen.has_value());
  EXPECT_LE(chosen->atomic_batch_size, tighter.max_local);
}

TEST(BatchSizeController, GrowsNoMoreThanItIsTold) {
  BatchSizeController controller({.nodes = 1, .replicas = 1});
  controller.SetPerfParams(kPerf);
  controller.SetGradParams(kNoisy);
  // Whether something was chosen for these replicas, or for others before a re-scale.
  for (const auto& chosen : {std::optional<BatchConfig>({128, 0}), std::optional<BatchConfig>()}) {
    controller.SetBatch(128, kLimits, 128, chosen);
    ASSERT_GT(Total(controller.Decide()->batch), 243);
    const auto bounded = controller.Decide(/*most_growth=*/1.9);
    ASSERT_TRUE(bounded.has_value());
    EXPECT_GT(Total(bounded->batch), 128);
    EXPECT_LE(Total(bounded->batch), 243);
  }
}

TEST(BatchSizeController, ChoosesForTheReplicasThatThereAreAndSaysSo) {
  BatchSizeController controller({.nodes = 1, .replicas = 1});
  controller.SetPerfParams(kPerf);
  controller.SetGradParams(kNoisy);
  controller.SetBatch(128, kLimits, 128, BatchConfig{128, 0});
  const BatchConfig alone = controller.Decide()->batch;
  // What is best for one replica is no choice for four, even if they do not get to say what they do.
  controller.SetBatch(128, kLimits, Total(alone), alone);
  EXPECT_FALSE(controller.Decide().has_value());
  controller.SetReplicas({.topology = {.nodes = 2, .replicas = 4}, .gpu_types = {"a"}, .group = 7});
  const auto chosen = controller.Decide(/*most_growth=*/1);
  ASSERT_TRUE(chosen.has_value());
  EXPECT_EQ(chosen->group, 7);
  EXPECT_LE(4 * Total(chosen->batch), std::max<int64_t>(Total(alone), 4 * 64));
  EXPECT_EQ(controller.replicas().gpu_types, std::vector<std::string>{"a"});
}

TEST(BatchSizeController, DecidesNothingUnlessAllIsKnown) {
  BatchSizeController controller({.nodes = 1, .replicas = 1});
  EXPECT_EQ(controller.Decide(), std::nullopt);
  controller.SetPerfParams(kPerf);
  controller.SetGradParams(kNoisy);
  EXPECT_EQ(controller.Decide(), std::nullopt);
  controller.SetBatch(128, kLimits, 128, BatchConfig{128, 0});
  EXPECT_TRUE(controller.Decide().has_value());
  controller.Clear();
  EXPECT_EQ(controller.Decide(), std::nullopt);
}

}  // namespace
}  // namespace adaptdl::elastic
