// Loops, epochs and accumulators over restarts.

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adaptdl/accumulator.h"
#include "adaptdl/data_loader.h"
#include "adaptdl/epochs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/elastic/replica_threads.h"
#include "tests/libs/elastic/temp_folder.h"

namespace adaptdl::elastic {
namespace {

using ::testing::ElementsAre;
using Log = std::vector<std::pair<std::string, std::vector<int64_t>>>;

// Runs a loop over `loader` and asks for a stop in iteration `stop_in` (from 0; negative: never).
void Loop(Job& job, const std::string& name, AdaptiveDataLoader& loader, int stop_in, Log* log) {
  if (!loader.BeginLoop()) return;
  for (int iteration = 0; loader.Next(); ++iteration) {
    log->emplace_back(name, loader.indices());
    if (iteration == stop_in) job.RequestStop();
  }
}

class ReplayTest : public ::testing::Test {
 protected:
  // One run of a program whose epochs have a loop over each of `sizes` samples, two at a time.
  int Run(const std::vector<int64_t>& sizes, int stop_loop, int stop_in, Log* log, int epochs = 1) {
    return RunReplicas(1, {.checkpoint_path = folder_.path()}, [&](Replica& replica) {
      for ([[maybe_unused]] int epoch : RemainingEpochsUntil(replica.job, epochs)) {
        std::vector<std::unique_ptr<AdaptiveDataLoader>> loaders;
        for (int64_t size : sizes) {
          loaders.push_back(std::make_unique<AdaptiveDataLoader>(
              replica.job, size, DataLoaderOptions{.batch_size = 2, .shuffle = false}));
        }
        for (size_t i = 0; i < loaders.size(); ++i) {
          Loop(replica.job, std::string(1, static_cast<char>('a' + i)), *loaders[i],
               static_cast<int>(i) == stop_loop ? stop_in : -1, log);
        }
      }
    })[0];
  }

  TempFolder folder_;
};

// The reference's case "threeloops" (dataloader.json) without its defect: the finished loop b is not run
// again. The step in which the stop came is finished, and not repeated either.
TEST_F(ReplayTest, SkipsFinishedLoopsAndGoesOnWithTheInterruptedOne) {
  Log before, after;
  EXPECT_EQ(Run({4, 4, 8}, 2, 2, &before), kExitStopped);
  EXPECT_EQ(before, (Log{{"a", {0, 1}},
                         {"a", {2, 3}},
                         {"b", {0, 1}},
                         {"b", {2, 3}},
                         {"c", {0, 1}},
                         {"c", {2, 3}},
                         {"c", {4, 5}}}));
  EXPECT_EQ(Run({4, 4, 8}, -1, -1, &after), 0);
  EXPECT_EQ(after, (Log{{"c", {6, 7}}}));
}

TEST_F(ReplayTest, AStopInTheLastStepOfALoopLeavesNothingOfIt) {
  Log before, after;
  EXPECT_EQ(Run({4, 8}, 0, 1, &before), kExitStopped);
  EXPECT_EQ(Run({4, 8}, -1, -1, &after), 0);
  EXPECT_EQ(after, (Log{{"b", {0, 1}}, {"b", {2, 3}}, {"b", {4, 5}}, {"b", {6, 7}}}));
}

TEST_F(ReplayTest, SurvivesAnyNumberOfStops) {
  Log log;
  EXPECT_EQ(Run({4, 4, 4}, 0, 0, &log), kExitStopped);
  EXPECT_EQ(Run({4, 4, 4}, 1, 0, &log), kExitStopped);
  EXPECT_EQ(Run({4, 4, 4}, 2, 1, &log), kExitStopped);
  EXPECT_EQ(Run({4, 4, 4}, -1, -1, &log), 0);
  EXPECT_EQ(log,
            (Log{{"a", {0, 1}}, {"a", {2, 3}}, {"b", {0, 1}}, {"b", {2, 3}}, {"c", {0, 1}}, {"c", {2, 3}}}));
}

TEST_F(ReplayTest, TheSameLoaderMayLoopTwice) {
  Log log;
  const auto run = [&](int stop_in) {
    return RunReplicas(1, {.checkpoint_path = folder_.path()}, [&](Replica& replica) {
      AdaptiveDataLoader loader(replica.job, 4, {.batch_size = 2, .shuffle = false});
      for ([[maybe_unused]] int epoch : RemainingEpochsUntil(replica.job, 1)) {
        Loop(replica.job, "first", loader, -1, &log);
        Loop(replica.job, "second", loader, stop_in, &log);
      }
    })[0];
  };
  EXPECT_EQ(run(0), kExitStopped);
  EXPECT_EQ(run(-1), 0);
  EXPECT_EQ(log, (Log{{"first", {0, 1}}, {"first", {2, 3}}, {"second", {0, 1}}, {"second", {2, 3}}}));
}

TEST_F(ReplayTest, EpochsGoOnWhereTheyStopped) {
  std::vector<int> epochs;
  const auto run = [&](int stop_epoch) {
    return RunReplicas(1, {.checkpoint_path = folder_.path()}, [&](Replica& replica) {
      for (int epoch : RemainingEpochsUntil(replica.job, 4)) {
        epochs.push_back(epoch);
        if (epoch == stop_epoch) replica.job.RequestStop();
      }
    })[0];
  };
  EXPECT_EQ(run(1), kExitStopped);
  EXPECT_EQ(run(-1), 0);
  EXPECT_THAT(epochs, ElementsAre(0, 1, 2, 3));
}

TEST_F(ReplayTest, LeavingALoopEarlyFinishesIt) {
  RunReplicas(1, {}, [&](Replica& replica) {
    AdaptiveDataLoader loader(replica.job, 6, {.batch_size = 2, .shuffle = false});
    ASSERT_TRUE(loader.BeginLoop());
    ASSERT_TRUE(loader.Next());
    ASSERT_TRUE(loader.Next());
    loader.EndLoop();
    EXPECT_FALSE(loader.Next());
    ASSERT_TRUE(loader.BeginLoop());
    ASSERT_TRUE(loader.Next());
    EXPECT_THAT(loader.indices(), ElementsAre(0, 1));
  });
}

TEST_F(ReplayTest, EveryEpochHasAnOrderOfItsOwnThatDoesNotDependOnReplicas) {
  std::vector<std::vector<int64_t>> orders(2);
  RunReplicas(1, {}, [&](Replica& replica) {
    AdaptiveDataLoader loader(replica.job, 20, {.batch_size = 5, .seed = 9});
    for (int epoch : RemainingEpochsUntil(replica.job, 2)) {
      for (loader.BeginLoop(); loader.Next();) {
        orders[epoch].insert(orders[epoch].end(), loader.indices().begin(), loader.indices().end());
      }
    }
  });
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_EQ(orders[1], PortablePermutation(20, 9, 1, 0));
}

TEST_F(ReplayTest, ShortAndEmptySharesKeepEveryReplicaInStep) {
  std::mutex mutex;
  std::vector<std::vector<int64_t>> weights(3);
  std::vector<int64_t> consumed;
  RunReplicas(3, {}, [&](Replica& replica) {
    AdaptiveDataLoader loader(replica.job, 5, {.batch_size = 4, .shuffle = false});
    for (loader.BeginLoop(); loader.Next();) {
      const auto ahead = loader.PeekNext(1);
      EXPECT_EQ(ahead.empty(), loader.position() == 4);
      std::lock_guard<std::mutex> lock(mutex);
      EXPECT_FALSE(loader.indices().empty());
      weights[replica.job.rank()].push_back(loader.weight());
      consumed.insert(consumed.end(), loader.indices().begin(), loader.indices().begin() + loader.weight());
    }
  });
  EXPECT_THAT(weights, ElementsAre(ElementsAre(2, 1), ElementsAre(1, 0), ElementsAre(1, 0)));
  EXPECT_THAT(consumed, ::testing::UnorderedElementsAre(0, 1, 2, 3, 4));
}

TEST_F(ReplayTest, NestedLoopsAreRefused) {
  EXPECT_EQ(RunReplicas(1, {},
                        [&](Replica& replica) {
                          AdaptiveDataLoader a(replica.job, 4, {.batch_size = 2});
                          AdaptiveDataLoader b(replica.job, 4, {.batch_size = 2});
                          a.BeginLoop();
                          b.BeginLoop();
                        })[0],
            1);
}

TEST_F(ReplayTest, AccumulatorsSumOverReplicas) {
  RunReplicas(3, {}, [&](Replica& replica) {
    Accumulator sums(replica.job);
    sums["loss"] += replica.job.rank();
    if (replica.job.rank() == 1) sums["only on one"] -= 5;
    EXPECT_EQ(sums["loss"], 0);
    sums.Synchronize();
    EXPECT_EQ(sums["loss"], 3);
    EXPECT_EQ(sums["only on one"], -5);
    sums["loss"] += 1;
    EXPECT_EQ(sums.Synchronize().at("loss"), 6);
  });
}

// Of three samples in steps of two, the last step has none for rank 1.
TEST_F(ReplayTest, AccumulatorsPassOverWhatStandsInForAnEmptyShare) {
  RunReplicas(2, {}, [&](Replica& replica) {
    AdaptiveDataLoader loader(replica.job, 3, {.batch_size = 2, .shuffle = false});
    Accumulator sums(replica.job);
    ASSERT_TRUE(loader.BeginLoop());
    while (loader.Next()) {
      ASSERT_EQ(loader.indices().size(), 1u);
      sums["samples"] += 1;
      sums["indices"] += static_cast<double>(loader.indices()[0]);
    }
    sums["replicas"] += 1;
    sums.Synchronize();
    EXPECT_EQ(sums["samples"], 3);
    EXPECT_EQ(sums["indices"], 0 + 1 + 2);
    EXPECT_EQ(sums["replicas"], 2);
  });
}

TEST_F(ReplayTest, AccumulatorsSurviveAStopInTheMiddleOfALoop) {
  double total = 0;
  int64_t replayed = -1;
  const auto run = [&](int replicas, int64_t stop_at) {
    return RunReplicas(replicas, {.checkpoint_path = folder_.path()}, [&](Replica& replica) {
      for ([[maybe_unused]] int epoch : RemainingEpochsUntil(replica.job, 2)) {
        Accumulator first(replica.job);
        AdaptiveDataLoader loader(replica.job, 10, {.batch_size = 2, .shuffle = false});
        if (loader.BeginLoop()) {
          while (loader.Next()) {
            for (int64_t i = 0; i < loader.weight(); ++i) first["sum"] += loader.indices()[i];
            if (epoch == 1 && loader.position() == stop_at && replica.job.rank() == 0)
              replica.job.RequestStop();
          }
        }
        first.Synchronize();
        if (replica.job.rank() == 0) {
          total = first["sum"];
          replayed = epoch;
        }
      }
    });
  };
  EXPECT_THAT(run(2, 4), ElementsAre(kExitStopped, kExitStopped));
  EXPECT_THAT(run(3, -1), ElementsAre(0, 0, 0));
  EXPECT_EQ(total, 45);
  EXPECT_EQ(replayed, 1);
}

TEST_F(ReplayTest, ASynchronisedTotalIsNotAddedUpAgain) {
  std::vector<double> seen;
  const auto run = [&](bool stop) {
    RunReplicas(1, {.checkpoint_path = folder_.path()}, [&](Replica& replica) {
      for ([[maybe_unused]] int epoch : RemainingEpochsUntil(replica.job, 1)) {
        Accumulator sums(replica.job);
        sums["x"] += 1;
        sums.Synchronize();
        seen.push_back(sums["x"]);
        if (stop) replica.job.RequestStop();
        replica.job.Synchronize();
      }
    });
  };
  run(true);
  run(false);
  EXPECT_THAT(seen, ElementsAre(1, 1));
}

// Code outside loops runs again after a restart; what it adds counts once.
TEST_F(ReplayTest, WhatIsAddedOutsideLoopsCountsOnce) {
  std::map<std::string, double> totals;
  const auto run = [&](int stop_epoch, int stop_loop) {
    RunReplicas(1, {.checkpoint_path = folder_.path()}, [&](Replica& replica) {
      Accumulator whole(replica.job);
      AdaptiveDataLoader loader(replica.job, 6, {.batch_size = 2, .shuffle = false});
      whole["begin"] += 1;
      for (int epoch : RemainingEpochsUntil(replica.job, 2)) {
        Accumulator sums(replica.job);
        sums["start"] += 1;
        for (int loop = 0; loop < 3; ++loop) {
          if (loader.BeginLoop()) {
            for (int iteration = 0; loader.Next(); ++iteration) {
              sums["steps"] += 1;
              if (epoch == stop_epoch && loop == stop_loop && iteration == 1) replica.job.RequestStop();
            }
          }
          sums["loops"] += 1;
          whole["loops"] += 1;
        }
        EXPECT_THAT(sums.Synchronize(), ElementsAre(std::pair<const std::string, double>("loops", 3),
                                                    std::pair<const std::string, double>("start", 1),
                                                    std::pair<const std::string, double>("steps", 9)));
      }
      whole["end"] += 1;
      totals = whole.Synchronize();
    });
  };
  run(0, 0);
  run(0, 1);
  run(0, 2);
  run(1, 1);
  run(-1, -1);
  EXPECT_EQ(totals, (std::map<std::string, double>{{"begin", 1}, {"end", 1}, {"loops", 6}}));
}

TEST_F(ReplayTest, AccumulatorsTakeMapsAndForgetThem) {
  RunReplicas(2, {}, [&](Replica& replica) {
    Accumulator sums(replica.job);
    sums.Update({{"a", 1}, {"b", 2}});
    sums.Subtract({{"b", 0.5}});
    EXPECT_EQ(sums.Synchronize(), (std::map<std::string, double>{{"a", 2}, {"b", 3}}));
    sums["a"] += 7;
    sums.Clear();
    EXPECT_EQ(sums["a"], 0);
    sums["b"] += 1;
    EXPECT_EQ(sums.Synchronize(), (std::map<std::string, double>{{"b", 2}}));
  });
}

// Otherwise what the interrupted loop had added would be lost.
TEST_F(ReplayTest, AClearBeforeARestartIsNotRepeated) {
  std::vector<double> seen;
  const auto run = [&](int replicas, int64_t stop_at) {
    RunReplicas(replicas, {.checkpoint_path = folder_.path()}, [&](Replica& replica) {
      for ([[maybe_unused]] int epoch : RemainingEpochsUntil(replica.job, 2)) {
        Accumulator sums(replica.job);
        for (int phase = 0; phase < 2; ++phase) {
          AdaptiveDataLoader loader(replica.job, 10, {.batch_size = 2, .shuffle = false});
          if (loader.BeginLoop()) {
            while (loader.Next()) {
              for (int64_t i = 0; i < loader.weight(); ++i) sums["sum"] += loader.indices()[i];
              if (phase == 1 && loader.position() == stop_at) replica.job.RequestStop();
            }
          }
          sums.Synchronize();
          if (replica.job.rank() == 0) seen.push_back(sums["sum"]);
          sums.Clear();
        }
      }
    });
  };
  run(2, 4);
  run(3, -1);
  EXPECT_THAT(seen, ElementsAre(45, 45, 45, 45, 45));
}

TEST_F(ReplayTest, ThereIsACurrentEpochWithinTheLoopOnly) {
  RunReplicas(1, {}, [&](Replica& replica) {
    EXPECT_EQ(CurrentEpoch(replica.job), std::nullopt);
    for (int epoch : RemainingEpochsUntil(replica.job, 2)) {
      EXPECT_EQ(CurrentEpoch(replica.job), epoch);
      EXPECT_EQ(FinishedEpochs(replica.job), epoch);
    }
    EXPECT_EQ(CurrentEpoch(replica.job), std::nullopt);
    EXPECT_EQ(FinishedEpochs(replica.job), 2);
  });
}

}  // namespace
}  // namespace adaptdl::elastic
