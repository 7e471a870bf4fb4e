// Batch sizes that change, micro-batches, failures of memory: whatever happens, each sample of a pass is read
// exactly once, and all replicas agree.

#include <algorithm>
#include <map>
#include <mutex>
#include <new>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "adaptdl/bptt.h"
#include "adaptdl/data_loader.h"
#include "adaptdl/epochs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/goodput/model.h"
#include "nlohmann/json.hpp"
#include "tests/libs/elastic/replica_threads.h"
#include "tests/libs/elastic/temp_folder.h"
#include "tests/vectors/vectors.h"

namespace adaptdl::elastic {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// What the replicas of a job computed, step by step.
class Trace {
 public:
  struct Step {
    int epoch = 0;
    int64_t pass = 0;
    // In no order.
    std::vector<int64_t> samples;
    double weights = 0;
    std::set<std::tuple<int64_t, double>> totals;
    // By rank.
    std::map<int, int> micro_batches;
  };

  void Add(Replica& replica, const AdaptiveDataLoader& loader) {
    std::lock_guard<std::mutex> lock(mutex_);
    const MicroBatch& micro = replica.job.core().step().micro_batch();
    Step& step = steps_[replica.job.optimizer_steps()];
    step.epoch = std::max(replica.job.core().replay().current_epoch(), 0);
    step.pass = loader.pass();
    step.samples.insert(step.samples.end(), loader.indices().begin(),
                        loader.indices().begin() + loader.weight());
    step.weights += static_cast<double>(micro.local) / static_cast<double>(micro.step_total);
    step.totals.insert({micro.step_total, micro.scale});
    ++step.micro_batches[replica.job.rank()];
  }

  const std::map<int64_t, Step>& steps() const { return steps_; }

  // What the replicas agree on, and no sample twice within a pass.
  void ExpectConsistent() const {
    std::map<std::pair<int, int64_t>, std::set<int64_t>> seen;
    int64_t next = 0;
    for (const auto& [number, step] : steps_) {
      EXPECT_EQ(number, next++);
      EXPECT_EQ(step.totals.size(), 1u) << "step " << number;
      EXPECT_NEAR(step.weights, 1, 1e-12) << "step " << number;
      EXPECT_EQ(static_cast<int64_t>(step.samples.size()), std::get<0>(*step.totals.begin()));
      for (const int64_t sample : step.samples) {
        EXPECT_TRUE(seen[std::make_pair(step.epoch, step.pass)].insert(sample).second)
            << "sample " << sample << " again in step " << number;
      }
    }
    // Every pass but an epoch's last one is complete.
    for (const auto& [key, samples] : seen) {
      if (seen.contains({key.first, key.second + 1})) {
        EXPECT_EQ(static_cast<int64_t>(samples.size()), size_) << "epoch " << key.first;
      }
    }
    passes_ = seen;
  }

  void ExpectEachSampleOncePerEpoch(int epochs) const {
    ExpectConsistent();
    EXPECT_EQ(static_cast<int>(passes_.size()), epochs);
    for (const auto& [key, samples] : passes_) {
      EXPECT_EQ(key.second, 0);
      EXPECT_EQ(static_cast<int64_t>(samples.size()), size_);
    }
  }

  explicit Trace(int64_t size) : size_(size) {}

 private:
  const int64_t size_;
  std::mutex mutex_;
  std::map<int64_t, Step> steps_;
  mutable std::map<std::pair<int, int64_t>, std::set<int64_t>> passes_;
};

void Propose(JobCore& core, const goodput::BatchConfig& batch) {
  core.batches().Propose(batch, core.team().membership().group);
}

// One run of a job, which ends by itself or is stopped.
struct Segment {
  int replicas = 1;
  // Optimiser steps of the whole job after which to stop; beyond the end: not at all.
  int64_t stop_after = 1'000'000;
};

// Up to `total` steps, of up to `longest` each.
std::vector<Segment> RandomSegments(std::mt19937& random, int64_t total, int longest) {
  std::vector<Segment> segments;
  int64_t step = 0;
  while (true) {
    step += 1 + static_cast<int64_t>(random() % longest);
    segments.push_back({.replicas = 1 + static_cast<int>(random() % 5), .stop_after = step});
    if (step >= total) break;
  }
  segments.back().stop_after = 1'000'000;
  return segments;
}

// What a test does before and after each micro-batch is computed.
struct Hooks {
  std::function<void(Job&, AdaptiveDataLoader&)> after_construction = nullptr;
  std::function<void(Replica&, AdaptiveDataLoader&)> compute = nullptr;
  std::function<double(const MicroBatch&)> gain = nullptr;
};

// Trains `epochs` epochs over `size` samples, in these segments.
void Train(int64_t size, int epochs, const DataLoaderOptions& options, const std::vector<Segment>& segments,
           const Hooks& hooks, Trace* trace, const std::string& folder) {
  int64_t group = 0;
  for (const Segment& segment : segments) {
    RunReplicas(segment.replicas, {.checkpoint_path = folder, .group = ++group}, [&](Replica& replica) {
      JobCore& core = replica.job.core();
      AdaptiveDataLoader loader(replica.job, size, options);
      if (hooks.after_construction) hooks.after_construction(replica.job, loader);
      for ([[maybe_unused]] int epoch : RemainingEpochsUntil(replica.job, epochs)) {
        if (!loader.BeginLoop()) continue;
        while (loader.Next()) {
          TrainStep(loader, [&] {
            if (hooks.compute) hooks.compute(replica, loader);
          });
          trace->Add(replica, loader);
          if (!loader.is_optimizer_step()) continue;
          if (core.progress().optimizer_steps() + 1 == segment.stop_after &&
              replica.job.rank() == segment.stop_after % segment.replicas) {
            replica.job.RequestStop();
          }
          core.loop().OnOptimizerStep(0, hooks.gain ? hooks.gain(core.step().micro_batch()) : 1);
        }
      }
    });
  }
}

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

TEST(Bptt, ReadsEachTokenOnceOverAnyScheduleOfRescales) {
  std::mt19937 random(1);
  for (int schedule = 0; schedule < 10; ++schedule) {
    TempFolder folder;
    std::mutex mutex;
    std::map<int64_t, int> seen;
    for (const Segment& segment : RandomSegments(random, 9, 4)) {
      RunReplicas(segment.replicas, {.checkpoint_path = folder.path()}, [&](Replica& replica) {
        BpttIterator text(replica.job, 6 * 50 + 4, {.columns = 6, .length = 7, .max_local_batch_size = 2});
        if (!text.BeginLoop()) return;
        while (text.Next()) {
          std::lock_guard<std::mutex> lock(mutex);
          for (int64_t i = 0; i < text.core().weight(); ++i) {
            const TokenRange range = text.ranges()[i];
            for (int64_t token = range.begin; token < range.end; ++token) ++seen[token];
          }
          if (!text.core().is_optimizer_step()) continue;
          replica.job.core().loop().OnOptimizerStep(0);
          if (replica.job.optimizer_steps() == segment.stop_after) replica.job.RequestStop();
        }
      });
    }
    ASSERT_EQ(seen.size(), 300u) << "schedule " << schedule;
    for (const auto& [token, times] : seen) EXPECT_EQ(times, 1) << "token " << token;
  }
}

TEST(Bptt, SaysWhetherAStateCanBeCarriedOn) {
  RunReplicas(2, {}, [&](Replica& replica) {
    BpttIterator text(replica.job, 41, {.columns = 4, .length = 4});
    std::vector<TokenRange> rows;
    std::vector<bool> continues;
    for (text.BeginLoop(); text.Next();) {
      rows.push_back(text.ranges().back());
      continues.push_back(text.continues());
    }
    EXPECT_THAT(continues, ElementsAre(false, true, true));
    // Columns of 10 tokens; a replica has every other one.
    const int64_t begin = 20 + 10 * replica.job.rank();
    EXPECT_THAT(rows, ElementsAre(TokenRange{begin, begin + 4}, TokenRange{begin + 4, begin + 8},
                                  TokenRange{begin + 8, begin + 10}));
  });
}

}  // namespace
}  // namespace adaptdl::elastic
