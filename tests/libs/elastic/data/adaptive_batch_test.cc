// Batch sizes that change: rank 0 decides, and all replicas follow at the same step.

#include <map>
#include <mutex>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "adaptdl/data_loader.h"
#include "adaptdl/epochs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/goodput/model.h"
#include "tests/libs/elastic/data/loader_trace.h"
#include "tests/libs/elastic/replica_threads.h"
#include "tests/libs/elastic/temp_folder.h"

namespace adaptdl::elastic {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// Rank 0 changes its mind at random moments; everybody else follows at the same step.
TEST(AdaptiveLoader, AllReplicasFollowTheDecisionsOfRankZeroWithinAPass) {
  std::mt19937 random(5);
  for (int schedule = 0; schedule < 20; ++schedule) {
    SCOPED_TRACE("schedule " + std::to_string(schedule));
    TempFolder folder;
    Trace trace(211);
    Hooks hooks;
    hooks.after_construction = [](Job&, AdaptiveDataLoader& loader) {
      loader.AutoscaleBatchSize(96, {.min = 2, .max = 16}, /*accumulation=*/true);
    };
    std::mutex mutex;
    hooks.compute = [&](Replica& replica, AdaptiveDataLoader&) {
      if (replica.job.rank() != 0) return;
      std::lock_guard<std::mutex> lock(mutex);
      if (random() % 3 != 0) return;
      const int64_t replicas = replica.job.num_replicas();
      const int64_t atomic = 2 + static_cast<int64_t>(random() % 15);
      const int64_t most = 96 / replicas / atomic;
      if (most < 1 || most * atomic * replicas < 8) return;
      Propose(replica.job.core(), {atomic, static_cast<int64_t>(random()) % most});
    };
    const goodput::GoodputFunction model({}, {.sqr = 1, .var = 2}, 8);
    hooks.gain = [&](const MicroBatch& micro) { return model.Gain(8 * micro.scale); };
    Train(211, 2, {.batch_size = 8, .seed = 2}, RandomSegments(random, 40, 12), hooks, &trace, folder.path());
    trace.ExpectConsistent();
    std::set<double> scales;
    for (const auto& [number, step] : trace.steps()) scales.insert(std::get<1>(*step.totals.begin()));
    EXPECT_GT(scales.size(), 2u);
  }
}

TEST(AdaptiveLoader, ADecisionIsCarriedOutWithTheNextStep) {
  std::vector<std::vector<int64_t>> sizes(2);
  RunReplicas(2, {}, [&](Replica& replica) {
    AdaptiveDataLoader loader(replica.job, 1000, {.batch_size = 8});
    loader.AutoscaleBatchSize(64, {}, /*accumulation=*/true);
    loader.BeginLoop();
    for (int i = 0; i < 7; ++i) {
      ASSERT_TRUE(loader.Next());
      EXPECT_EQ(CurrentDataLoader(replica.job), &loader);
      sizes[replica.job.rank()].push_back(loader.weight());
      if (replica.job.rank() == 0 && i == 1) Propose(replica.job.core(), {10, 1});
      if (replica.job.rank() == 0 && i == 3) Propose(replica.job.core(), {5, 0});
      if (loader.is_optimizer_step()) replica.job.core().loop().OnOptimizerStep(0);
    }
    EXPECT_EQ(loader.micro_batches(), 1);
    loader.EndLoop();
    EXPECT_EQ(CurrentDataLoader(replica.job), nullptr);
  });
  EXPECT_THAT(sizes, Each(ElementsAre(4, 4, 10, 10, 5, 5, 5)));
}

// A loop ends when it has made the progress of a pass of small steps, which takes larger steps more samples.
TEST(AdaptiveLoader, EpochsEndWhenTheirProgressIsMade) {
  TempFolder folder;
  Trace trace(100);
  Hooks hooks;
  hooks.after_construction = [](Job&, AdaptiveDataLoader& loader) { loader.AutoscaleBatchSize(40); };
  hooks.compute = [](Replica& replica, AdaptiveDataLoader&) {
    if (replica.job.rank() == 0) Propose(replica.job.core(), {40 / replica.job.num_replicas(), 0});
  };
  const goodput::GoodputFunction model({}, {.sqr = 1, .var = 1}, 10);
  hooks.gain = [&](const MicroBatch& micro) { return model.Gain(10 * micro.scale); };
  Train(100, 3, {.batch_size = 10}, {{.replicas = 2, .stop_after = 5}, {.replicas = 1}}, hooks, &trace,
        folder.path());
  trace.ExpectConsistent();
  // The first step is worth 1, all others (1 + 1) / (1/4 + 1) = 1.6 each, and 10 are needed per epoch:
  // 1 + 6 * 1.6 = 10.6, then 6 * 1.6 = 9.6 for the 9.4 that are missing, then 7 for 9.8.
  std::map<int, int> steps;
  for (const auto& [number, step] : trace.steps()) ++steps[step.epoch];
  EXPECT_THAT(steps, ElementsAre(std::pair(0, 7), std::pair(1, 6), std::pair(2, 7)));
  // Two passes: 10 + 40 + 40 + 10 samples, then 40 + 40 + 20.
  EXPECT_EQ(trace.steps().at(3).pass, 0);
  EXPECT_EQ(trace.steps().at(6).pass, 1);
}

TEST(AdaptiveLoader, AnAdaptiveLoopWithoutOptimiserStepsIsRefused) {
  EXPECT_THAT(RunReplicas(1, {},
                          [&](Replica& replica) {
                            AdaptiveDataLoader loader(replica.job, 20, {.batch_size = 10});
                            loader.AutoscaleBatchSize(20);
                            for (loader.BeginLoop(); loader.Next();) continue;
                          }),
              ElementsAre(1));
}

TEST(AdaptiveLoader, AnAdaptiveBatchBeginsAboveTheOneThatTheLearningRateIsFor) {
  RunReplicas(1, {}, [&](Replica& replica) {
    JobCore& core = replica.job.core();
    AdaptiveDataLoader loader(replica.job, 100, {.batch_size = 40, .base_batch_size = 10});
    loader.AutoscaleBatchSize(80);
    std::vector<int64_t> totals;
    loader.BeginLoop();
    while (loader.Next()) {
      totals.push_back(loader.batch_size());
      if (totals.size() == 1) Propose(core, {10, 0});
      core.loop().OnOptimizerStep(0, /*gain=*/core.step().micro_batch().scale);
    }
    // As much progress as that of ten steps of 10.
    EXPECT_THAT(totals, ElementsAre(40, 10, 10, 10, 10, 10, 10));
  });
}

TEST(AdaptiveLoader, KeepsTheTotalBatchOverARestartUntilAnotherOneIsChosen) {
  TempFolder folder;
  const auto run = [&](int replicas, const LocalBatchSizes& local, bool accumulation,
                       const std::function<void(Replica&, AdaptiveDataLoader&)>& body) {
    RunReplicas(replicas, {.checkpoint_path = folder.path()}, [&](Replica& replica) {
      AdaptiveDataLoader loader(replica.job, 1000, {.batch_size = 8});
      loader.AutoscaleBatchSize(96, local, accumulation);
      body(replica, loader);
    });
  };
  run(2, {}, true, [&](Replica& replica, AdaptiveDataLoader& loader) {
    loader.BeginLoop();
    loader.Next();
    if (replica.job.rank() == 0) Propose(replica.job.core(), {12, 1});
    replica.job.core().loop().OnOptimizerStep(0);
    replica.job.RequestStop();
    loader.Next();
  });
  const auto expect = [](int64_t total, int64_t local) {
    return [=](Replica&, AdaptiveDataLoader& loader) {
      EXPECT_EQ(loader.batch_size(), total);
      EXPECT_EQ(loader.local_batch_size(), local);
    };
  };
  run(2, {.max = 12}, true, expect(48, 12));
  run(1, {.max = 12}, true, expect(48, 12));
  run(4, {.max = 12}, true, expect(48, 12));
  run(4, {}, true, expect(48, 12));
  // Without accumulation one replica cannot hold it.
  run(1, {.max = 12}, false, expect(12, 12));
  run(8, {.min = 10, .max = 12}, false, expect(80, 10));
}

TEST(AdaptiveLoader, DecidesByWhatItMeasuredAndSaysWhatItMayUse) {
  RunReplicas(1, {}, [&](Replica& replica) {
    JobCore& core = replica.job.core();
    AdaptiveDataLoader loader(replica.job, 10000, {.batch_size = 8});
    loader.AutoscaleBatchSize(64, {.min = 2, .max = 32}, /*accumulation=*/true);
    for ([[maybe_unused]] int epoch : RemainingEpochsUntil(replica.job, 2)) {
      loader.BeginLoop();
      loader.Next();
      core.loop().OnOptimizerStep(0);
      loader.Next();
      // All time is spent on what does not depend on the batch size, and gradients are all noise.
      core.meter().profile().AddOptimizerStep({1, 1, 8}, 1.0, 0);
      core.meter().profile().AddOptimizerStep({1, 1, 16}, 1.01, 0);
      core.batches().SetGradientStatistics(1e-6, 1);
      core.batches().SetGradientStatistics(std::nan(""), 1);
      core.batches().Decide();
      core.loop().OnOptimizerStep(0);
      loader.Next();
      // More than that at once is not allowed, and accumulation gains nothing.
      EXPECT_EQ(loader.batch_size(), 32);
      core.loop().OnOptimizerStep(0, 7.5);
      const auto progress = replica.control.progress();
      ASSERT_TRUE(progress.has_value());
      EXPECT_DOUBLE_EQ(progress->total_scale_invariant_steps, 2 * 10000.0 / 8);
      break;
    }
  });
}

}  // namespace
}  // namespace adaptdl::elastic
