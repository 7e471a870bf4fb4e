// Groups that follow each other without a restart: growing, shrinking, and going on when members are lost.

#include <algorithm>
#include <atomic>
#include <functional>
#include <latch>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "adaptdl/accumulator.h"
#include "adaptdl/data_loader.h"
#include "adaptdl/epochs.h"
#include "adaptdl/stream_loader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "libs/base/mutex.h"
#include "libs/elastic/checkpoint/piecewise_state.h"
#include "tests/libs/elastic/group/losing_communicator.h"
#include "tests/libs/elastic/replica_threads.h"

namespace adaptdl::elastic {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// What all replicas have consumed. Thread-safe.
class Ledger {
 public:
  void Add(int epoch, const std::vector<int64_t>& samples) {
    MutexLock lock(&mutex_);
    for (int64_t sample : samples) ++counts_[{epoch, sample}];
  }
  // How often each of `size` samples was consumed in this epoch.
  std::vector<int> Counts(int epoch, int64_t size) {
    MutexLock lock(&mutex_);
    std::vector<int> counts;
    for (int64_t i = 0; i < size; ++i) counts.push_back(counts_[{epoch, i}]);
    return counts;
  }

 private:
  Mutex mutex_;
  std::map<std::pair<int, int64_t>, int> counts_ ABSL_GUARDED_BY(mutex_);
};

constexpr int64_t kSamples = 60;

// A state that each optimiser step changes, as a model is.
class Weights final : public CheckpointState {
 public:
  std::string name() const override { return "weights"; }
  std::string Save() override { return std::to_string(steps); }
  bool Load(const std::string& bytes) override {
    steps = std::stoll(bytes);
    return true;
  }
  bool changes_with_steps() const override { return true; }
  int64_t steps = 0;
};

class RescaleTest : public ::testing::Test {
 protected:
  // Two epochs over kSamples in batches of 6, with a sum that is synchronised in each; `in_step` is called
  // in each step.
  ReplicaThreads::Body Program(std::function<void(Replica&, int64_t step)> in_step = nullptr) {
    return [this, in_step](Replica& replica) {
      Weights weights;
      replica.job.Register(&weights);
      for (int epoch : RemainingEpochsUntil(replica.job, 2)) {
        AdaptiveDataLoader loader(replica.job, kSamples, {.batch_size = 6, .seed = 3});
        Accumulator sums(replica.job);
        for (loader.BeginLoop(); loader.Next();) {
          ++weights.steps;
          replica.job.core().loop().OnOptimizerStep(0);
          if (loader.weight() > 0) {
            ledger_.Add(epoch, loader.indices());
            sums["samples"] += static_cast<double>(loader.weight());
          }
          if (in_step) in_step(replica, replica.job.optimizer_steps());
        }
        sums.Synchronize();
        EXPECT_EQ(sums["samples"], samples_expected_);
      }
      EXPECT_EQ(weights.steps, 20);
      EXPECT_EQ(replica.job.optimizer_steps(), 20);
      ++finished_;
    };
  }

  void ExpectEachSampleOnce() {
    EXPECT_THAT(ledger_.Counts(0, kSamples), Each(1));
    EXPECT_THAT(ledger_.Counts(1, kSamples), Each(1));
  }

  Ledger ledger_;
  std::atomic<int> finished_{0};
  std::atomic<double> samples_expected_ = kSamples;
  ReplicaThreads replicas_{RunOptions{.plans_groups = true}};
};

TEST_F(RescaleTest, ANewcomerJoinsInTheMiddleOfALoop) {
  bool planned = false;
  replicas_.Start("a", {.group = 1}, Program([&](Replica&, int64_t step) {
                    if (step != 4 || planned) return;
                    planned = true;
                    replicas_.Start("b", {.group = 2, .rank = 1, .world_size = 2, .newcomers = 1}, Program());
                    replicas_.Plan({{"a", {.group = 2, .rank = 0, .world_size = 2, .newcomers = 1}}});
                  }));
  replicas_.Join();
  EXPECT_EQ(replicas_.code("a"), 0);
  EXPECT_EQ(replicas_.code("b"), 0);
  EXPECT_EQ(finished_, 2);
  ExpectEachSampleOnce();
}

// What the checkpoint has to ask the replicas was asked before the newcomer was one.
TEST_F(RescaleTest, ACheckpointMayBeDueAtTheStepOfAChange) {
  bool planned = false;
  replicas_.Start("a", {.group = 1}, Program([&](Replica& replica, int64_t step) {
                    replica.job.RequestCheckpoint();
                    if (step != 4 || planned) return;
                    planned = true;
                    replicas_.Start("b", {.group = 2, .rank = 1, .world_size = 2, .newcomers = 1}, Program());
                    replicas_.Plan({{"a", {.group = 2, .rank = 0, .world_size = 2, .newcomers = 1}}});
                  }));
  replicas_.Join();
  EXPECT_EQ(replicas_.code("a"), 0);
  EXPECT_EQ(replicas_.code("b"), 0);
  EXPECT_EQ(finished_, 2);
  ExpectEachSampleOnce();
}

TEST_F(RescaleTest, ALeaverHandsItsSumsOver) {
  std::atomic<bool> planned = false;
  const auto program = Program([&](Replica& replica, int64_t step) {
    if (step != 13 || replica.job.rank() != 0 || planned.exchange(true)) return;
    replicas_.Plan({{"a", {.group = 2, .rank = 0, .world_size = 1}}, {"b", {.group = 2, .rank = -1}}});
  });
  replicas_.Start("a", {.group = 1, .rank = 0, .world_size = 2}, program);
  replicas_.Start("b", {.group = 1, .rank = 1, .world_size = 2}, program);
  replicas_.Join();
  EXPECT_EQ(replicas_.code("a"), 0);
  EXPECT_EQ(replicas_.code("b"), kExitStopped);
  ExpectEachSampleOnce();
}

TEST_F(RescaleTest, Rank0MayLeave) {
  std::atomic<bool> planned = false;
  const auto program = Program([&](Replica& replica, int64_t step) {
    if (step != 7 || replica.job.rank() != 0 || planned.exchange(true)) return;
    replicas_.Plan({{"a", {.group = 2, .rank = -1}}, {"b", {.group = 2, .rank = 0, .world_size = 1}}});
  });
  replicas_.Start("a", {.group = 1, .rank = 0, .world_size = 2}, program);
  replicas_.Start("b", {.group = 1, .rank = 1, .world_size = 2}, program);
  replicas_.Join();
  EXPECT_EQ(replicas_.code("a"), kExitStopped);
  EXPECT_EQ(replicas_.code("b"), 0);
  ExpectEachSampleOnce();
}

TEST_F(RescaleTest, ANewcomerHandsTheJobOverToTheNext) {
  std::atomic<int> planned = 0;
  ReplicaThreads::Body program;
  program = Program([&](Replica& replica, int64_t step) {
    if (step == 4 && planned == 0) {
      planned = 1;
      replicas_.Start("b", {.group = 2, .rank = 1, .world_size = 2, .newcomers = 1}, program);
      replicas_.Plan({{"a", {.group = 2, .rank = 0, .world_size = 2, .newcomers = 1}}});
    }
    if (step == 8 && replica.job.rank() == 0 && planned == 1) {
      planned = 2;
      replicas_.Start("c", {.group = 3, .rank = 1, .world_size = 2, .newcomers = 1}, program);
      replicas_.Plan(
          {{"a", {.group = 3, .rank = -1}}, {"b", {.group = 3, .rank = 0, .world_size = 2, .newcomers = 1}}});
    }
  });
  replicas_.Start("a", {.group = 1}, program);
  replicas_.Join();
  EXPECT_EQ(replicas_.code("a"), kExitStopped);
  EXPECT_EQ(replicas_.code("b"), 0);
  EXPECT_EQ(replicas_.code("c"), 0);
  ExpectEachSampleOnce();
}

TEST_F(RescaleTest, ThePlanOfOneMemberIsNotEnough) {
  std::atomic<int> planned = 0;
  std::atomic<int64_t> group_at_8 = 0;
  const auto program = Program([&](Replica& replica, int64_t step) {
    if (replica.job.rank() != 0) return;
    if (step == 3 && planned == 0) {
      planned = 1;
      replicas_.Plan({{"a", {.group = 2, .rank = 0, .world_size = 1}}});
    }
    if (step == 8) group_at_8 = replica.job.core().team().membership().group;
    if (step == 9 && planned == 1) {
      planned = 2;
      replicas_.Plan({{"b", {.group = 2, .rank = -1}}});
    }
  });
  replicas_.Start("a", {.group = 1, .rank = 0, .world_size = 2}, program);
  replicas_.Start("b", {.group = 1, .rank = 1, .world_size = 2}, program);
  replicas_.Join();
  EXPECT_EQ(group_at_8, 1);
  EXPECT_EQ(replicas_.code("a"), 0);
  EXPECT_EQ(replicas_.code("b"), kExitStopped);
  ExpectEachSampleOnce();
}

TEST_F(RescaleTest, TheSurvivorsGoOnWhenAReplicaIsLost) {
  // What the lost one had added since the last Synchronize() is lost with it.
  samples_expected_ = kSamples;
  const auto program = [&](const std::string& name) {
    return Program([&, name](Replica&, int64_t step) {
      if (name == "b" && step == 11) throw ReplicaDeath();
    });
  };
  replicas_.Start("a", {.group = 1, .rank = 0, .world_size = 3}, program("a"));
  replicas_.Start("b", {.group = 1, .rank = 1, .world_size = 3}, program("b"));
  replicas_.Start("c", {.group = 1, .rank = 2, .world_size = 3}, program("c"));
  replicas_.control("a").AwaitBroken(1);
  replicas_.control("c").AwaitBroken(1);
  samples_expected_ = kSamples - 2;
  replicas_.Plan(
      {{"a", {.group = 2, .rank = 0, .world_size = 2}}, {"c", {.group = 2, .rank = 1, .world_size = 2}}});
  replicas_.Join();
  EXPECT_EQ(replicas_.code("a"), 0);
  EXPECT_EQ(replicas_.code("b"), -1);
  EXPECT_EQ(replicas_.code("c"), 0);
  ExpectEachSampleOnce();
}

TEST_F(RescaleTest, ACommandToStopEndsTheWaitForAPlan) {
  ReplicaThreads replicas(RunOptions{.plan_timeout = absl::Hours(1), .plans_groups = true});
  const auto program = [&](const std::string& name) {
    return Program([&, name](Replica&, int64_t step) {
      if (name == "b" && step == 11) throw ReplicaDeath();
    });
  };
  replicas.Start("a", {.group = 1, .rank = 0, .world_size = 2}, program("a"));
  replicas.Start("b", {.group = 1, .rank = 1, .world_size = 2}, program("b"));
  replicas.control("a").AwaitBroken(1);
  replicas.control("a").Stop("the job has failed");
  replicas.Join();
  EXPECT_EQ(replicas.code("a"), kExitPeerLost);
}

TEST_F(RescaleTest, APlanThatSaysSoEndsTheWaitForAMemberThatHangs) {
  // All are in the step: one that was still in the collective before it would share it out anew, as this loop
  // exchanges no gradients.
  std::latch in_step(3);
  std::latch over(2);
  const ReplicaThreads::Body program = Program([&](Replica& replica, int64_t step) {
    if (step == 11 && replica.job.num_replicas() == 3) in_step.count_down();
  });
  const auto survivor = [&](Replica& replica) {
    program(replica);
    over.count_down();
  };
  const auto hanging = Program([&](Replica&, int64_t step) {
    if (step != 11) return;
    in_step.count_down();
    over.wait();
    throw ReplicaDeath();
  });
  replicas_.Start("a", {.group = 1, .rank = 0, .world_size = 3}, survivor);
  replicas_.Start("b", {.group = 1, .rank = 1, .world_size = 3}, hanging);
  replicas_.Start("c", {.group = 1, .rank = 2, .world_size = 3}, survivor);
  in_step.wait();
  samples_expected_ = kSamples - 2;
  replicas_.control("a").Plan({{.group = 2, .rank = 0, .world_size = 2}, "b hangs", true});
  replicas_.control("c").Plan({{.group = 2, .rank = 1, .world_size = 2}, "b hangs", true});
  replicas_.Join();
  EXPECT_EQ(replicas_.code("a"), 0);
  EXPECT_EQ(replicas_.code("c"), 0);
  ExpectEachSampleOnce();
}

TEST_F(RescaleTest, ASecondLossDuringTheRecoveryIsRecoveredToo) {
  const auto program = [&](const std::string& name) {
    return Program([&, name](Replica&, int64_t step) {
      if (name != "a" && step == 11) throw ReplicaDeath();
    });
  };
  replicas_.Start("a", {.group = 1, .rank = 0, .world_size = 3}, program("a"));
  replicas_.Start("b", {.group = 1, .rank = 1, .world_size = 3}, program("b"));
  replicas_.Start("c", {.group = 1, .rank = 2, .world_size = 3}, program("c"));
  replicas_.control("a").AwaitBroken(1);
  samples_expected_ = kSamples - 4;
  // The supervisor believes that c lives; then it does not.
  replicas_.Plan({{"a", {.group = 2, .rank = 0, .world_size = 2}}});
  replicas_.Plan({{"a", {.group = 3, .rank = 0, .world_size = 1}}});
  replicas_.Join();
  EXPECT_EQ(replicas_.code("a"), 0);
  ExpectEachSampleOnce();
}

TEST_F(RescaleTest, ANewcomerFindsItsPlaceBetweenEpochs) {
  bool planned = false;
  replicas_.Start("a", {.group = 1}, Program([&](Replica&, int64_t step) {
                    if (step != 10 || planned) return;
                    planned = true;
                    replicas_.Start("b", {.group = 2, .rank = 1, .world_size = 2, .newcomers = 1}, Program());
                    replicas_.Plan({{"a", {.group = 2, .rank = 0, .world_size = 2, .newcomers = 1}}});
                  }));
  replicas_.Join();
  EXPECT_EQ(replicas_.code("b"), 0);
  ExpectEachSampleOnce();
}

TEST_F(RescaleTest, StreamsAreLeasedAnew) {
  Ledger ledger;
  constexpr int64_t kShards = 5;
  constexpr int64_t kLength = 12;
  std::atomic<bool> planned = false;
  ReplicaThreads::Body program = [&](Replica& replica) {
    StreamLoader<int64_t> loader(replica.job, kShards,
                                 [](int64_t shard, int64_t skip) {
                                   return [shard, next = skip]() mutable -> std::optional<int64_t> {
                                     if (next == kLength) return std::nullopt;
                                     return shard * kLength + next++;
                                   };
                                 },
                                 {.batch_size = 4});
    int steps = 0;
    for (loader.BeginLoop(); loader.Next();) {
      replica.job.core().loop().OnOptimizerStep(0);
      if (loader.weight() > 0) ledger.Add(0, loader.samples());
      if (++steps == 5 && !planned.exchange(true)) {
        replicas_.Start("b", {.group = 2, .rank = 1, .world_size = 2, .newcomers = 1}, program);
        replicas_.Plan({{"a", {.group = 2, .rank = 0, .world_size = 2, .newcomers = 1}}});
      }
    }
  };
  replicas_.Start("a", {.group = 1}, program);
  replicas_.Join();
  EXPECT_EQ(replicas_.code("a"), 0);
  EXPECT_EQ(replicas_.code("b"), 0);
  EXPECT_THAT(ledger.Counts(0, kShards * kLength), Each(1));
}

// A state of one large piece.
class Piece final : public CheckpointState, private PiecewiseState {
 public:
  explicit Piece(char fill) : bytes_(1 << 20, fill) {}
  std::string name() const override { return "piece"; }
  std::string Save() override { return bytes_; }
  bool Load(const std::string& bytes) override {
    bytes_ = bytes;
    return true;
  }
  PiecewiseState* piecewise() override { return this; }

 private:
  class Access final : public StateReader, public StateWriter {
   public:
    explicit Access(std::string* bytes) : bytes_(bytes), sizes_({static_cast<int64_t>(bytes->size())}) {}
    const std::string& head() const override { return head_; }
    const std::vector<int64_t>& sizes() const override { return sizes_; }
    const char* Read(size_t) override { return bytes_->data(); }
    char* Open(size_t) override { return bytes_->data(); }
    void Close(size_t) override {}
    absl::Status Commit() override { return absl::OkStatus(); }

   private:
    const std::string head_ = "head";
    std::string* const bytes_;
    const std::vector<int64_t> sizes_;
  };

  std::unique_ptr<StateReader> Read() override { return std::make_unique<Access>(&bytes_); }
  absl::StatusOr<std::unique_ptr<StateWriter>> Write(const std::string&) override {
    return std::make_unique<Access>(&bytes_);
  }

  std::string bytes_;
};

// A newcomer that has lost its source in the middle of the state, and is alone, does not begin the job with
// half of it.
TEST(HalfReceivedStateTest, IsNoBeginning) {
  std::atomic<bool> planned = false;
  ReplicaThreads* all = nullptr;
  RunOptions options{.plans_groups = true, .meet_in_body = true};
  options.wrap = [&](std::unique_ptr<comm::Communicator> inner, const GroupMembership& group) {
    auto broadcasts = std::make_shared<int>(0);
    const bool fails = group.group == 2 && group.rank == 1;
    return std::make_unique<LosingCommunicator>(
        std::move(inner), [&all, fails, broadcasts](comm::Collective::Kind kind) {
          // Descriptions and heads are two each.
          if (!fails || kind != comm::Collective::Kind::kBroadcast || ++*broadcasts != 5) return false;
          all->Plan({{"a", {.group = 3}}, {"b", {.group = 4}}});
          return true;
        });
  };
  ReplicaThreads replicas(options);
  all = &replicas;
  std::atomic<int> finished = 0;
  ReplicaThreads::Body body = [&](Replica& replica) {
    Piece piece('a');
    replica.job.Expect(&piece);
    replica.job.Register(&piece);
    AdaptiveDataLoader loader(replica.job, kSamples, {.batch_size = 6, .seed = 3});
    for (loader.BeginLoop(); loader.Next();) {
      replica.job.core().loop().OnOptimizerStep(0);
      if (replica.job.optimizer_steps() == 4 && !planned.exchange(true)) {
        replicas.Start("b", {.group = 2, .rank = 1, .world_size = 2, .newcomers = 1}, body);
        replicas.Plan({{"a", {.group = 2, .rank = 0, .world_size = 2, .newcomers = 1}}});
      }
    }
    ++finished;
  };
  replicas.Start("a", {.group = 1}, body);
  replicas.Join();
  EXPECT_EQ(replicas.code("a"), 0);
  EXPECT_EQ(replicas.code("b"), kNotJoined);
  EXPECT_EQ(finished, 1);
}

// A gather that one member completes and the others do not: its result is theirs too.
TEST(HalfDoneGatherTest, TheResultIsHandedOver) {
  constexpr int kSize = 3;
  // In group 1 the fourth gather of the program ends well on rank 1 only.
  RunOptions options{.plans_groups = true};
  options.wrap = [](std::unique_ptr<comm::Communicator> inner, const GroupMembership& group) {
    auto gathers = std::make_shared<int>(0);
    const bool fails = group.group == 1 && group.rank != 1;
    return std::make_unique<LosingCommunicator>(
        std::move(inner), [fails, gathers](comm::Collective::Kind kind) {
          // The first one is that of the group's synchronisation.
          return fails && kind == comm::Collective::Kind::kAllGather && (*gathers)++ == 4;
        });
  };
  ReplicaThreads replicas(options);
  std::vector<std::vector<std::vector<std::string>>> results(kSize);
  const auto body = [&](Replica& replica) {
    const int me = replica.job.rank();
    for (int i = 0; i < 8; ++i) {
      results[me].push_back(replica.job.core().team().Gather(absl::StrCat("member ", me, " in ", i)));
    }
  };
  for (int rank = 0; rank < kSize; ++rank) {
    replicas.Start(std::string(1, static_cast<char>('a' + rank)),
                   {.group = 1, .rank = rank, .world_size = kSize}, body);
  }
  for (const char* name : {"a", "b", "c"}) replicas.control(name).AwaitBroken(1);
  replicas.Plan({{"a", {.group = 2, .rank = 0, .world_size = kSize}},
                 {"b", {.group = 2, .rank = 1, .world_size = kSize}},
                 {"c", {.group = 2, .rank = 2, .world_size = kSize}}});
  replicas.Join();
  for (int rank = 0; rank < kSize; ++rank) {
    ASSERT_EQ(results[rank].size(), 8u);
    for (int i = 0; i < 8; ++i) {
      EXPECT_THAT(results[rank][i],
                  ElementsAre(absl::StrCat("member 0 in ", i), absl::StrCat("member 1 in ", i),
                              absl::StrCat("member 2 in ", i)))
          << "rank " << rank << ", gather " << i;
    }
  }
}

}  // namespace
}  // namespace adaptdl::elastic
