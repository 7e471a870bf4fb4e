// Batches of a fixed size, micro-batches, failures of memory: whatever happens, each sample of a pass is read
// exactly once, and all replicas agree.

#include <algorithm>
#include <new>
#include <random>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "adaptdl/data_loader.h"
#include "adaptdl/epochs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/libs/elastic/data/loader_trace.h"
#include "tests/libs/elastic/replica_threads.h"
#include "tests/libs/elastic/temp_folder.h"
#include "tests/vectors/vectors.h"

namespace adaptdl::elastic {
namespace {

using ::testing::ElementsAre;

TEST(AdaptiveLoader, AFixedBatchIsExactForAnyNumberOfReplicasAndWhateverMemoryHolds) {
  for (const int replicas : {1, 2, 3, 5, 8}) {
    for (const int64_t local : {0, 1, 2, 3, 100}) {
      SCOPED_TRACE(testing::Message() << replicas << " replicas, at most " << local);
      Trace trace(53);
      Train(53, 2, {.batch_size = 8, .seed = 4, .max_local_batch_size = local}, {{.replicas = replicas}}, {},
            &trace, "");
      trace.ExpectEachSampleOncePerEpoch(2);
      EXPECT_EQ(trace.steps().size(), 14u);
      for (const auto& [number, step] : trace.steps()) {
        EXPECT_EQ(step.samples.size(), number % 7 == 6 ? 5u : 8u);
        const int64_t share = (static_cast<int64_t>(step.samples.size()) + replicas - 1) / replicas;
        for (const auto& [rank, count] : step.micro_batches) {
          EXPECT_EQ(count, local == 0 ? 1 : (share + local - 1) / local);
        }
      }
    }
  }
}

// Steps of the reference on R replicas: the sampler's indices of each, cut into equal parts.
TEST(AdaptiveLoader, DealsOutLikeTheReferenceWhereReplicasDivideTheBatch) {
  const nlohmann::json vectors = ReadVectors("sampler.json");
  int compared = 0;
  for (const auto& item : vectors.at("partitions")) {
    const int64_t size = item.at("n");
    const int replicas = item.at("num_replicas");
    if (item.at("shuffle").get<bool>() || item.at("index") != 0 || size % replicas != 0) continue;
    const int64_t batch = 2 * replicas;
    std::vector<std::vector<int64_t>> read(replicas);
    RunReplicas(replicas, {}, [&](Replica& replica) {
      AdaptiveDataLoader loader(replica.job, size, {.batch_size = batch, .shuffle = false});
      for (loader.BeginLoop(); loader.Next();) {
        auto& indices = read[replica.job.rank()];
        indices.insert(indices.end(), loader.indices().begin(), loader.indices().begin() + loader.weight());
      }
    });
    EXPECT_EQ(read, item.at("indices_by_rank").get<std::vector<std::vector<int64_t>>>());
    ++compared;
  }
  EXPECT_GT(compared, 3);
}

TEST(AdaptiveLoader, AnyScheduleOfRescalesAndMemoryFailuresReadsEachSampleOnce) {
  std::mt19937 random(3);
  for (int schedule = 0; schedule < 20; ++schedule) {
    SCOPED_TRACE("schedule " + std::to_string(schedule));
    TempFolder folder;
    Trace trace(101);
    const int64_t fits = 1 + static_cast<int64_t>(random() % 12);
    Hooks hooks;
    hooks.compute = [fits](Replica& replica, AdaptiveDataLoader& loader) {
      // Memory differs from replica to replica.
      if (static_cast<int64_t>(loader.indices().size()) > fits + replica.job.rank()) throw std::bad_alloc();
    };
    Train(101, 2, {.batch_size = 16, .seed = 8}, RandomSegments(random, 14, 5), hooks, &trace, folder.path());
    trace.ExpectEachSampleOncePerEpoch(2);
    EXPECT_EQ(trace.steps().size(), 14u);
  }
}

TEST(AdaptiveLoader, DropsTheSamplesThatMakeNoWholeBatch) {
  Trace trace(53);
  Train(53, 1, {.batch_size = 8, .drop_last = true}, {{.replicas = 3}}, {}, &trace, "");
  trace.ExpectConsistent();
  EXPECT_EQ(trace.steps().size(), 6u);
  for (const auto& [number, step] : trace.steps()) EXPECT_EQ(step.samples.size(), 8u);
}

TEST(AdaptiveLoader, ABandGivesAllReplicasTheSameNumberOfSamples) {
  const auto batch_of = [](int replicas, const DataLoaderOptions& options) {
    int64_t total = 0;
    RunReplicas(replicas, {}, [&](Replica& replica) {
      AdaptiveDataLoader loader(replica.job, 1000, options);
      if (replica.job.rank() == 0) total = loader.batch_size();
    });
    return total;
  };
  EXPECT_EQ(batch_of(4, {.batch_size = 64, .band = 0.1}), 64);
  EXPECT_EQ(batch_of(3, {.batch_size = 64, .band = 0.1}), 63);
  EXPECT_EQ(batch_of(5, {.batch_size = 64, .band = 0.1}), 65);
  EXPECT_EQ(batch_of(5, {.batch_size = 64, .band = 0.01}), 64);
  // Of the micro-batches too: 3 replicas of 2 micro-batches each.
  EXPECT_EQ(batch_of(3, {.batch_size = 64, .band = 0.1, .max_local_batch_size = 12}), 66);
  Trace trace(200);
  Train(200, 1, {.batch_size = 64, .band = 0.1}, {{.replicas = 3}}, {}, &trace, "");
  trace.ExpectEachSampleOncePerEpoch(1);
  EXPECT_EQ(std::get<1>(*trace.steps().at(0).totals.begin()), 63.0 / 64);
}

TEST(AdaptiveLoader, WrongUseIsRefused) {
  const auto refused = [](const std::function<void(Job&)>& body) {
    return RunReplicas(1, {}, [&](Replica& replica) { body(replica.job); })[0] == 1;
  };
  EXPECT_TRUE(refused([](Job& job) {
    AdaptiveDataLoader loader(job, 20, {.batch_size = 10});
    loader.AutoscaleBatchSize(9);
  }));
  EXPECT_TRUE(refused([](Job& job) {
    AdaptiveDataLoader loader(job, 20, {.batch_size = 10});
    loader.AutoscaleBatchSize(20, {.min = 8, .max = 4});
  }));
  EXPECT_TRUE(refused([](Job& job) {
    AdaptiveDataLoader a(job, 20, {.batch_size = 10});
    AdaptiveDataLoader b(job, 20, {.batch_size = 10});
    a.AutoscaleBatchSize(20);
    b.AutoscaleBatchSize(20);
  }));
  EXPECT_TRUE(refused([](Job& job) { AdaptiveDataLoader(job, 20, {.batch_size = 21, .drop_last = true}); }));
  EXPECT_TRUE(refused([](Job& job) { AdaptiveDataLoader(job, 20, {.batch_size = 2, .band = 1}); }));
  EXPECT_TRUE(
      refused([](Job& job) { AdaptiveDataLoader(job, 20, {.batch_size = 2, .base_batch_size = -1}); }));
  EXPECT_TRUE(refused([](Job& job) {
    AdaptiveDataLoader loader(job, 20, {.batch_size = 2, .base_batch_size = 4});
    loader.AutoscaleBatchSize(20);
  }));
}

// A learning rate that was found with small batches, and a batch size that stays larger.
TEST(AdaptiveLoader, AFixedBatchIsMeasuredByTheOneThatTheLearningRateIsFor) {
  RunReplicas(2, {}, [&](Replica& replica) {
    JobCore& core = replica.job.core();
    AdaptiveDataLoader loader(replica.job, 100, {.batch_size = 40, .base_batch_size = 10});
    for ([[maybe_unused]] int epoch : RemainingEpochsUntil(replica.job, 2)) {
      std::vector<int64_t> totals;
      loader.BeginLoop();
      while (loader.Next()) {
        totals.push_back(loader.batch_size());
        EXPECT_DOUBLE_EQ(core.step().micro_batch().scale, 4);
        EXPECT_EQ(core.step().micro_batch().initial_batch_size, 10);
        core.loop().OnOptimizerStep(0, /*gain=*/2.5);
      }
      EXPECT_THAT(totals, ElementsAre(40, 40, 20));
    }
    // Each epoch was worth 7.5 steps at the base batch size.
    if (replica.job.rank() != 0) return;
    EXPECT_DOUBLE_EQ(replica.control.progress()->scale_invariant_steps, 15);
    EXPECT_DOUBLE_EQ(replica.control.progress()->total_scale_invariant_steps, 15);
  });
}

TEST(AdaptiveLoader, RemembersWhatMemoryHolds) {
  TempFolder folder;
  std::vector<int64_t> largest(3);
  const auto train = [&](int replicas, std::vector<int>* attempts) {
    RunReplicas(replicas, {.checkpoint_path = folder.path()}, [&](Replica& replica) {
      const int rank = replica.job.rank();
      largest[rank] = 0;
      AdaptiveDataLoader loader(replica.job, 64, {.batch_size = 32});
      loader.BeginLoop();
      while (loader.Next()) {
        TrainStep(loader, [&] {
          ++(*attempts)[rank];
          // Only this replica's memory is that small.
          if (rank == 1 && loader.indices().size() > 5) throw std::runtime_error("CUDA out of memory. Tried");
        });
        largest[rank] = std::max(largest[rank], loader.weight());
        if (loader.is_optimizer_step()) replica.job.core().loop().OnOptimizerStep(0);
        if (loader.position() == 0 && loader.is_optimizer_step()) {
          EXPECT_EQ(loader.micro_batches(), rank == 1 ? 4 : 1);
        }
        if (loader.position() > 0) {
          EXPECT_EQ(loader.local_batch_size(), 4);
        }
        replica.job.RequestCheckpoint();
      }
    });
  };
  std::vector<int> attempts(2);
  train(2, &attempts);
  // 16 failed, 8 failed, then 4 at a time in both steps; the other one is done with the first step at once.
  EXPECT_THAT(attempts, ElementsAre(1 + 4, 2 + 4 + 4));
  EXPECT_THAT(largest, ElementsAre(16, 4, 0));
  RunReplicas(3, {.checkpoint_path = folder.path()}, [&](Replica& replica) {
    AdaptiveDataLoader loader(replica.job, 64, {.batch_size = 32});
    EXPECT_EQ(loader.local_batch_size(), 4);
  });
}

TEST(AdaptiveLoader, OtherFailuresAreTheProgramsOwn) {
  RunReplicas(1, {}, [&](Replica& replica) {
    AdaptiveDataLoader loader(replica.job, 64, {.batch_size = 2});
    loader.BeginLoop();
    loader.Next();
    EXPECT_THROW(TrainStep(loader, [] { throw std::runtime_error("a shape does not fit"); }),
                 std::runtime_error);
    // Two samples, then one, then nothing is left to try.
    int attempts = 0;
    EXPECT_THROW(TrainStep(loader,
                           [&] {
                             ++attempts;
                             throw std::bad_alloc();
                           }),
                 std::bad_alloc);
    EXPECT_EQ(attempts, 2);
  });
}

TEST(AdaptiveLoader, ProfilesMicroBatchesAsAccumulationSteps) {
  RunReplicas(2, {}, [&](Replica& replica) {
    AdaptiveDataLoader loader(replica.job, 36, {.batch_size = 12, .max_local_batch_size = 2});
    for (loader.BeginLoop(); loader.Next();) {
      if (loader.is_optimizer_step()) replica.job.core().loop().OnOptimizerStep(0);
    }
    const auto entries = replica.job.core().meter().profile().Entries();
    ASSERT_EQ(entries.size(), 1u);
    const auto& [key, entry] = *entries.begin();
    EXPECT_EQ(key.local_batch_size, 2);
    // All but those of the first step.
    EXPECT_NEAR(entry.accum_count, 4, 0.01);
    EXPECT_NEAR(entry.optim_count, 2, 0.01);
    if (const auto progress = replica.control.progress()) {
      EXPECT_EQ(progress->accumulation_steps, 2);
      EXPECT_EQ(progress->total_batch_size, 12);
    }
  });
}

TEST(AdaptiveLoader, StopsBetweenOptimiserStepsOnly) {
  TempFolder folder;
  int computed = 0;
  EXPECT_THAT(RunReplicas(1, {.checkpoint_path = folder.path()},
                          [&](Replica& replica) {
                            AdaptiveDataLoader loader(replica.job, 36,
                                                      {.batch_size = 12, .max_local_batch_size = 4});
                            for (loader.BeginLoop(); loader.Next();) {
                              if (++computed == 4) replica.job.RequestStop();
                              if (loader.is_optimizer_step()) replica.job.core().loop().OnOptimizerStep(0);
                            }
                          }),
              ElementsAre(kExitStopped));
  EXPECT_EQ(computed, 6);
}

}  // namespace
}  // namespace adaptdl::elastic
