// Requests, checkpoints, losses and progress of a job.

#include "libs/elastic/job/job_core.h"

#include <atomic>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "adaptdl/data_loader.h"
#include "adaptdl/epochs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"
#include "libs/elastic/checkpoint/checkpoint_store.h"
#include "tests/libs/elastic/replica_threads.h"
#include "tests/libs/elastic/temp_folder.h"

namespace adaptdl::elastic {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

// Holds the writing of checkpoints up until it is opened.
class Gate {
 public:
  std::function<absl::Status(absl::string_view)> step() {
    return [this](absl::string_view) {
      MutexLock lock(&mutex_);
      reached_ = true;
      changed_.SignalAll();
      while (!open_) changed_.Wait(&mutex_);
      return absl::OkStatus();
    };
  }
  void AwaitSomebody() {
    MutexLock lock(&mutex_);
    while (!reached_) changed_.Wait(&mutex_);
  }
  void Open() {
    MutexLock lock(&mutex_);
    open_ = true;
    changed_.SignalAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool reached_ ABSL_GUARDED_BY(mutex_) = false;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

// Counts its own steps, as a model would.
class Counter final : public CheckpointState {
 public:
  explicit Counter(std::string name = "counter") : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  std::string Save() override { return std::to_string(value); }
  bool Load(const std::string& bytes) override {
    value = std::stoi(bytes);
    return value >= 0;
  }
  int value = 0;

 private:
  const std::string name_;
};

class JobCoreTest : public ::testing::Test {
 protected:
  bool HasCheckpoint() { return CheckpointStore({.folder = folder_.path()}).LoadNewest().ok(); }
  int SavedSteps() {
    return std::stoi(CheckpointStore({.folder = folder_.path()}).LoadNewest()->states["counter"]);
  }

  // Checkpoints in the folder.
  int Versions() {
    const auto entries = std::filesystem::directory_iterator(folder_.path());
    return static_cast<int>(std::distance(begin(entries), end(entries)));
  }

  TempFolder folder_;
};

// A training loop without a model: `steps` steps of a batch of 4, as the optimiser wrapper would take them.
void Train(Replica& replica, int steps, Counter* counter, const std::function<void(int step)>& in_step) {
  AdaptiveDataLoader loader(replica.job, 4 * steps, {.batch_size = 4});
  for (loader.BeginLoop(); loader.Next();) {
    in_step(counter->value);
    ++counter->value;
    replica.job.core().loop().OnOptimizerStep(0);
  }
}

TEST_F(JobCoreTest, AStopOfOneReplicaStopsAllAfterTheSameStep) {
  std::atomic<int> steps[3] = {};
  EXPECT_THAT(RunReplicas(3, {.checkpoint_path = folder_.path()},
                          [&](Replica& replica) {
                            Counter counter;
                            replica.job.Register(&counter);
                            Train(replica, 10, &counter, [&](int step) {
                              steps[replica.job.rank()] = step + 1;
                              if (step == 3 && replica.job.rank() == 1)
                                replica.control.observer()->OnStopCommand("test");
                            });
                          }),
              ElementsAre(kExitStopped, kExitStopped, kExitStopped));
  EXPECT_EQ(steps[0], 4);
  EXPECT_EQ(steps[1], 4);
  EXPECT_EQ(steps[2], 4);
  EXPECT_EQ(SavedSteps(), 4);
}

TEST_F(JobCoreTest, AJobStartsFromAnothersCheckpointUntilItHasItsOwn) {
  const auto stop_after = [](int steps, int* first) {
    return [=](Replica& replica) {
      Counter counter;
      replica.job.Register(&counter);
      if (replica.job.rank() == 0) *first = counter.value;
      Train(replica, 10, &counter, [&](int step) {
        if (step == steps) replica.control.observer()->OnStopCommand("test");
      });
    };
  };
  // The other job's group is a later one than this job will have for long.
  int first = -1;
  TempFolder own;
  RunReplicas(1, {.checkpoint_path = folder_.path(), .group = 7}, stop_after(2, &first));
  EXPECT_EQ(first, 0);
  RunReplicas(2, {.checkpoint_path = own.path(), .start_path = folder_.path()}, stop_after(5, &first));
  EXPECT_EQ(first, 3);
  RunReplicas(1, {.checkpoint_path = own.path(), .start_path = folder_.path(), .group = 2},
              stop_after(7, &first));
  EXPECT_EQ(first, 6);
  // Where no checkpoints are written, from the other job's every time.
  RunReplicas(1, {.start_path = folder_.path()}, stop_after(4, &first));
  EXPECT_EQ(first, 3);
}

TEST_F(JobCoreTest, AStartThatIsNotThereIsAnError) {
  TempFolder own;
  EXPECT_THAT(RunReplicas(1, {.checkpoint_path = own.path(), .start_path = folder_.path()},
                          [](Replica& replica) { replica.job.rank(); }),
              ElementsAre(Not(0)));
}

TEST_F(JobCoreTest, ACheckpointCommandDoesNotStop) {
  EXPECT_THAT(RunReplicas(2, {.checkpoint_path = folder_.path()},
                          [&](Replica& replica) {
                            Counter counter;
                            replica.job.Register(&counter);
                            Train(replica, 6, &counter, [&](int step) {
                              if (step == 2) replica.control.observer()->OnCheckpointCommand("test");
                            });
                            EXPECT_EQ(counter.value, 6);
                          }),
              ElementsAre(0, 0));
  EXPECT_EQ(SavedSteps(), 3);
}

TEST_F(JobCoreTest, CheckpointsPeriodically) {
  RunReplicas(1, {.checkpoint_path = folder_.path(), .checkpoint_period = absl::Milliseconds(1)},
              [&](Replica& replica) {
                Counter counter;
                replica.job.Register(&counter);
                Train(replica, 20, &counter,
                      [&](int) { (void)replica.job.core().checkpoints().AwaitWritten(); });
              });
  EXPECT_GT(SavedSteps(), 10);
}

TEST_F(JobCoreTest, CheckpointsEverySoManySteps) {
  RunReplicas(2, {.checkpoint_path = folder_.path(), .checkpoint_period_steps = 4, .checkpoint_keep = 10},
              [&](Replica& replica) {
                Counter counter;
                replica.job.Register(&counter);
                Train(replica, 11, &counter,
                      [&](int) { (void)replica.job.core().checkpoints().AwaitWritten(); });
              });
  EXPECT_EQ(Versions(), 2);
  EXPECT_EQ(SavedSteps(), 8);
}

// What is registered meanwhile changes; the snapshot must not.
TEST_F(JobCoreTest, TrainingGoesOnWhileACheckpointIsWritten) {
  Gate gate;
  RunReplicas(1, {.checkpoint_path = folder_.path(), .before_checkpoint_step = gate.step()},
              [&](Replica& replica) {
                Counter counter;
                replica.job.Register(&counter);
                Train(replica, 10, &counter, [&](int step) {
                  if (step == 2) replica.job.RequestCheckpoint();
                });
                EXPECT_EQ(counter.value, 10);
                EXPECT_FALSE(HasCheckpoint());
                gate.Open();
              });
  EXPECT_EQ(SavedSteps(), 3);
}

TEST_F(JobCoreTest, OnlyTheNewestOfTheWaitingSnapshotsIsWritten) {
  Gate gate;
  RunReplicas(1, {.checkpoint_path = folder_.path(), .before_checkpoint_step = gate.step()},
              [&](Replica& replica) {
                Counter counter;
                replica.job.Register(&counter);
                Train(replica, 10, &counter, [&](int step) {
                  if (step == 0) replica.job.RequestCheckpoint();
                  if (step == 1) gate.AwaitSomebody();
                  if (step > 0 && step < 6) replica.job.RequestCheckpoint();
                });
                gate.Open();
              });
  EXPECT_EQ(Versions(), 2);
  EXPECT_EQ(SavedSteps(), 6);
}

TEST_F(JobCoreTest, AStopWaitsForItsCheckpoint) {
  EXPECT_THAT(RunReplicas(1, {.checkpoint_path = folder_.path()},
                          [&](Replica& replica) {
                            Counter counter;
                            replica.job.Register(&counter);
                            Train(replica, 10, &counter, [&](int step) {
                              if (step == 4) replica.job.RequestStop();
                            });
                          }),
              ElementsAre(kExitStopped));
  EXPECT_EQ(SavedSteps(), 5);
}

TEST_F(JobCoreTest, AStopDoesNotWaitForeverForStorage) {
  Gate gate;
  EXPECT_THAT(RunReplicas(1,
                          {.checkpoint_path = folder_.path(),
                           .before_checkpoint_step = gate.step(),
                           .write_timeout = absl::Milliseconds(1)},
                          [&](Replica& replica) {
                            Counter counter;
                            replica.job.Register(&counter);
                            replica.job.RequestStop();
                            try {
                              replica.job.Synchronize();
                            } catch (const ReplicaExit&) {
                              gate.Open();
                              throw;
                            }
                          }),
              ElementsAre(kExitStopped));
}

TEST_F(JobCoreTest, SaveAllReturnsWhenTheCheckpointIsWritten) {
  EXPECT_THAT(RunReplicas(3, {.checkpoint_path = folder_.path()},
                          [&](Replica& replica) {
                            Counter counter;
                            EXPECT_FALSE(replica.job.Register(&counter));
                            counter.value = 7;
                            EXPECT_TRUE(replica.job.SaveAll());
                            EXPECT_EQ(SavedSteps(), 7);
                          }),
              ElementsAre(0, 0, 0));
  RunReplicas(2, {.checkpoint_path = folder_.path()}, [&](Replica& replica) {
    Counter counter;
    EXPECT_TRUE(replica.job.Register(&counter));
    EXPECT_EQ(counter.value, 7);
  });
  RunReplicas(2, {}, [&](Replica& replica) { EXPECT_FALSE(replica.job.SaveAll()); });
}

TEST_F(JobCoreTest, SaveAllSaysThatItCouldNot) {
  RunReplicas(2,
              {.checkpoint_path = folder_.path(),
               .before_checkpoint_step =
                   [](absl::string_view) { return absl::PermissionDeniedError("permission denied"); }},
              [&](Replica& replica) { EXPECT_FALSE(replica.job.SaveAll()); });
  EXPECT_FALSE(HasCheckpoint());
}

TEST_F(JobCoreTest, SaveAllWithinALoopLeavesTheSamplesOfItsStepToBeReadAgain) {
  EXPECT_THAT(RunReplicas(1, {.checkpoint_path = folder_.path()},
                          [&](Replica& replica) {
                            AdaptiveDataLoader loader(replica.job, 8, {.batch_size = 4});
                            loader.BeginLoop();
                            loader.Next();
                            loader.Next();
                            EXPECT_TRUE(replica.job.SaveAll());
                          }),
              ElementsAre(0));
  EXPECT_THAT(RunReplicas(1, {.checkpoint_path = folder_.path()},
                          [&](Replica& replica) {
                            AdaptiveDataLoader loader(replica.job, 8, {.batch_size = 4});
                            loader.BeginLoop();
                            EXPECT_TRUE(loader.Next());
                            EXPECT_EQ(loader.position(), 4);
                          }),
              ElementsAre(0));
}

TEST_F(JobCoreTest, SaveAllAfterTheStepOfALoopIsAnError) {
  EXPECT_THAT(RunReplicas(1, {.checkpoint_path = folder_.path()},
                          [&](Replica& replica) {
                            AdaptiveDataLoader loader(replica.job, 8, {.batch_size = 4});
                            loader.BeginLoop();
                            loader.Next();
                            replica.job.core().loop().OnOptimizerStep(0);
                            replica.job.SaveAll();
                          }),
              ElementsAre(1));
}

// A state that cannot be saved costs the checkpoint, not the training.
TEST_F(JobCoreTest, AStateThatThrowsDoesNotStopTraining) {
  class Thrower final : public CheckpointState {
   public:
    std::string name() const override { return "thrower"; }
    std::string Save() override { throw std::runtime_error("cannot be saved"); }
    bool Load(const std::string&) override { return true; }
  };
  EXPECT_THAT(RunReplicas(1, {.checkpoint_path = folder_.path()},
                          [&](Replica& replica) {
                            Counter counter;
                            Thrower thrower;
                            replica.job.Register(&counter);
                            EXPECT_TRUE(replica.job.SaveAll());
                            replica.job.Register(&thrower);
                            EXPECT_FALSE(replica.job.SaveAll());
                          }),
              ElementsAre(0));
  EXPECT_EQ(Versions(), 1);
}

TEST_F(JobCoreTest, AFullDiskDoesNotStopTraining) {
  const RunOptions full = {.checkpoint_path = folder_.path(),
                           .checkpoint_period = absl::Milliseconds(1),
                           .before_checkpoint_step = [](absl::string_view) {
                             return absl::ResourceExhaustedError("no space left on device");
                           }};
  EXPECT_THAT(RunReplicas(1, full,
                          [&](Replica& replica) {
                            Counter counter;
                            replica.job.Register(&counter);
                            Train(replica, 20, &counter, [](int) {});
                            EXPECT_EQ(counter.value, 20);
                            EXPECT_FALSE(replica.job.SaveAll());
                            const auto reported = replica.control.checkpoints();
                            ASSERT_FALSE(reported.empty());
                            EXPECT_EQ(reported.back().first, 20);
                            EXPECT_TRUE(absl::IsResourceExhausted(reported.back().second));
                          }),
              ElementsAre(0));
  EXPECT_FALSE(HasCheckpoint());
}

TEST_F(JobCoreTest, AFencedReplicaStopsWithoutACheckpoint) {
  EXPECT_THAT(RunReplicas(2, {.checkpoint_path = folder_.path()},
                          [&](Replica& replica) {
                            Counter counter;
                            replica.job.Register(&counter);
                            Train(replica, 10, &counter, [&](int step) {
                              if (step == 3 && replica.job.rank() == 0) {
                                replica.control.observer()->OnStopCommand("test");
                                replica.control.observer()->OnFenced("test");
                              }
                            });
                          }),
              ElementsAre(kExitPeerLost, kExitPeerLost));
  EXPECT_FALSE(HasCheckpoint());
}

TEST_F(JobCoreTest, ALostPeerEndsTheOthers) {
  EXPECT_THAT(RunReplicas(3, {.checkpoint_path = folder_.path()},
                          [&](Replica& replica) {
                            Counter counter;
                            replica.job.Register(&counter);
                            Train(replica, 10, &counter, [&](int step) {
                              if (step == 3 && replica.job.rank() == 2) throw ReplicaExit{9};
                            });
                          }),
              ElementsAre(kExitPeerLost, kExitPeerLost, 9));
  EXPECT_FALSE(HasCheckpoint());
}

TEST_F(JobCoreTest, WritesACheckpointWhenTrainingIsDone) {
  RunReplicas(2, {.checkpoint_path = folder_.path()}, [&](Replica& replica) {
    Counter counter;
    replica.job.Register(&counter);
    for ([[maybe_unused]] int epoch : RemainingEpochsUntil(replica.job, 2)) {
      Train(replica, 5, &counter, [](int) {});
    }
  });
  EXPECT_EQ(SavedSteps(), 10);
  // Started again it has nothing left to do.
  RunReplicas(1, {.checkpoint_path = folder_.path()}, [&](Replica& replica) {
    EXPECT_EQ(replica.job.optimizer_steps(), 10);
    for ([[maybe_unused]] int epoch : RemainingEpochsUntil(replica.job, 2)) FAIL();
  });
}

TEST_F(JobCoreTest, HandsTheCheckpointToReplicasThatHaveNoFolder) {
  RunReplicas(1, {.checkpoint_path = folder_.path()}, [&](Replica& replica) {
    Counter counter;
    replica.job.Register(&counter);
    replica.job.RequestCheckpoint();
    counter.value = 7;
    replica.job.Synchronize();
  });
  RunReplicas(3, {.checkpoint_path = folder_.path()}, [&](Replica& replica) {
    Counter counter;
    replica.job.Register(&counter);
    EXPECT_EQ(counter.value, 7);
  });
}

TEST_F(JobCoreTest, RefusesTwoStatesOfOneName) {
  EXPECT_THAT(RunReplicas(1, {},
                          [&](Replica& replica) {
                            Counter a, b;
                            replica.job.Register(&a);
                            replica.job.Register(&b);
                          }),
              ElementsAre(1));
}

TEST_F(JobCoreTest, KeepsSavedStatesThatTheProgramHasNotRegisteredYet) {
  RunReplicas(1, {.checkpoint_path = folder_.path()}, [&](Replica& replica) {
    Counter counter("late");
    counter.value = 5;
    replica.job.Register(&counter);
    replica.job.RequestCheckpoint();
    replica.job.Synchronize();
  });
  RunReplicas(1, {.checkpoint_path = folder_.path()}, [&](Replica& replica) {
    replica.job.RequestCheckpoint();
    replica.job.Synchronize();
  });
  EXPECT_EQ(CheckpointStore({.folder = folder_.path()}).LoadNewest()->states["late"], "5");
}

TEST_F(JobCoreTest, ReportsProgressOfRankZeroOnly) {
  RunReplicas(2, {}, [&](Replica& replica) {
    Counter counter;
    for ([[maybe_unused]] int epoch : RemainingEpochsUntil(replica.job, 4)) {
      if (epoch == 1) break;
      Train(replica, 8, &counter, [](int) {});
    }
    const auto progress = replica.control.progress();
    ASSERT_EQ(progress.has_value(), replica.job.rank() == 0);
    if (!progress) return;
    EXPECT_EQ(progress->optimizer_steps, 8);
    EXPECT_EQ(progress->total_epochs, 4);
    EXPECT_DOUBLE_EQ(progress->fraction, 0.25);
    EXPECT_EQ(progress->total_batch_size, 4);
    EXPECT_EQ(progress->local_batch_size, 2);
    EXPECT_GT(progress->throughput, 0);
    EXPECT_EQ(progress->scale_invariant_steps, 8);
    EXPECT_EQ(progress->total_scale_invariant_steps, 32);
  });
}

TEST_F(JobCoreTest, TellsWhereTheTimeOfStepsGoes) {
  RunReplicas(2, {}, [&](Replica& replica) {
    AdaptiveDataLoader loader(replica.job, 48, {.batch_size = 4});
    for (loader.BeginLoop(); loader.Next();) {
      loader.MarkRead();
      replica.job.core().loop().OnOptimizerStep(/*sync_time=*/0.0005);
    }
    if (replica.job.rank() != 0) return;
    const auto progress = replica.control.progress();
    ASSERT_TRUE(progress.has_value() && progress->step_times.has_value());
    // The clock is a millisecond later at each look.
    EXPECT_GE(progress->step_times->data, 0.0009);
    EXPECT_NEAR(progress->step_times->sync, 0.0005, 1e-9);
    EXPECT_GT(progress->step_times->compute, 0);
    EXPECT_EQ(progress->gain, 1);
  });
}

TEST_F(JobCoreTest, WhatTheProgramReportsOutlivesIt) {
  for (const bool first : {true, false}) {
    RunReplicas(2, {.checkpoint_path = folder_.path()}, [&](Replica& replica) {
      ControlObserver& observer = *replica.control.observer();
      Counter counter;
      if (first) {
        Train(replica, 3, &counter, [&](int step) { replica.job.Report("loss", 10 - step); });
        replica.job.Report("accuracy", 0.5, /*step=*/77);
        replica.job.SaveAll();
      }
      const std::vector<ReportedMetric> metrics = observer.LatestMetrics();
      ASSERT_EQ(metrics.size(), 2u);
      EXPECT_EQ(metrics[0].name, "loss");
      EXPECT_EQ(metrics[0].value, 8);
      EXPECT_EQ(metrics[0].step, 2) << "as many as were done then";
      EXPECT_EQ(metrics[1].value, 0.5);
      EXPECT_EQ(metrics[1].step, 77);
    });
  }
}

// Passes end with a short batch, and are evaluated on other data.
TEST_F(JobCoreTest, TheWholeWorkIsDoneWhenTheLastEpochIs) {
  RunReplicas(1, {}, [&](Replica& replica) {
    AdaptiveDataLoader training(replica.job, 22, {.batch_size = 4});
    AdaptiveDataLoader evaluation(replica.job, 100, {.batch_size = 10});
    for ([[maybe_unused]] int epoch : RemainingEpochsUntil(replica.job, 3)) {
      for (training.BeginLoop(); training.Next();) replica.job.core().loop().OnOptimizerStep(0);
      for (evaluation.BeginLoop(); evaluation.Next();) continue;
    }
    const auto progress = replica.control.progress();
    ASSERT_TRUE(progress.has_value());
    EXPECT_EQ(progress->scale_invariant_steps, 18);
    EXPECT_EQ(progress->total_scale_invariant_steps, 18);
    EXPECT_DOUBLE_EQ(progress->fraction, 1);
  });
}

// Else the estimate of the end would jump back with every evaluation.
TEST_F(JobCoreTest, EvaluationsAreNoProgress) {
  const auto run = [&](bool stop) {
    RunReplicas(1, {.checkpoint_path = folder_.path()}, [&](Replica& replica) {
      AdaptiveDataLoader training(replica.job, 20, {.batch_size = 4});
      AdaptiveDataLoader evaluation(replica.job, 100, {.batch_size = 10});
      for ([[maybe_unused]] int epoch : RemainingEpochsUntil(replica.job, 2)) {
        for (training.BeginLoop(); training.Next();) replica.job.core().loop().OnOptimizerStep(0);
        for (evaluation.BeginLoop(); evaluation.Next();) {
          if (stop && evaluation.position() == 50) replica.control.observer()->OnStopCommand("test");
          const auto progress = replica.control.progress();
          if (progress && evaluation.position() > 0) {
            EXPECT_DOUBLE_EQ(progress->fraction, epoch == 0 ? 0.5 : 1);
          }
        }
      }
    });
  };
  run(/*stop=*/true);
  run(/*stop=*/false);
}

TEST_F(JobCoreTest, WithoutEpochsTheWholeWorkIsUnknown) {
  RunReplicas(1, {}, [&](Replica& replica) {
    Counter counter;
    Train(replica, 3, &counter, [](int) {});
    EXPECT_EQ(replica.control.progress()->total_scale_invariant_steps, 0);
  });
}

TEST_F(JobCoreTest, ProfilesAllButTheFirstStepAndShortBatches) {
  RunReplicas(2, {}, [&](Replica& replica) {
    AdaptiveDataLoader loader(replica.job, 22, {.batch_size = 4});
    for (loader.BeginLoop(); loader.Next();) replica.job.core().loop().OnOptimizerStep(0.0001);
    const auto entries = replica.job.core().meter().profile().Entries();
    ASSERT_EQ(entries.size(), 1u);
    EXPECT_EQ(entries.begin()->first, (ProfileKey{1, 2, 2}));
    EXPECT_NEAR(entries.begin()->second.optim_count, 4, 0.1);
    EXPECT_GT(entries.begin()->second.optim_step_time, 0);
  });
}

// What heartbeats tell of a replica whose thread never runs, as its clock says.
TEST_F(JobCoreTest, TellsHowLongItWaitsOrDoesNothing) {
  RunOptions options;
  options.thread_clock = [] { return [] { return 1.0; }; };
  RunReplicas(1, options, [](Replica& replica) {
    JobCore& core = replica.job.core();
    core.watch().BeginWait();
    const Activity waits = replica.control.observer()->CurrentActivity();
    EXPECT_GT(waits.waiting, 0);
    EXPECT_EQ(waits.idle, 0);
    EXPECT_GT(replica.control.observer()->CurrentActivity().waiting, waits.waiting);
    core.watch().EndWait();
    const Activity idle = replica.control.observer()->CurrentActivity();
    EXPECT_EQ(idle.waiting, 0);
    EXPECT_EQ(idle.patience, 0) << "no step was seen";
    AdaptiveDataLoader loader(replica.job, 42, {.batch_size = 6});
    for (loader.BeginLoop(); loader.Next();) core.loop().OnOptimizerStep(0);
    EXPECT_EQ(replica.control.observer()->CurrentActivity().patience, 10);
    std::thread elsewhere([&] { core.loop().BeginMicroBatch(); });
    elsewhere.join();
    EXPECT_EQ(replica.control.observer()->CurrentActivity().idle, 0) << "another thread trains";
  });
}

}  // namespace
}  // namespace adaptdl::elastic
