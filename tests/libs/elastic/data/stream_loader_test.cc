// Streams of unknown length: each sample once, over any schedule of re-scales.

#include "adaptdl/stream_loader.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "adaptdl/data_loader.h"
#include "adaptdl/epochs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/libs/elastic/replica_threads.h"
#include "tests/libs/elastic/temp_folder.h"

namespace adaptdl::elastic {
namespace {

using ::testing::ElementsAre;

// (shard, position in it)
using Record = std::pair<int64_t, int64_t>;
using Loader = StreamLoader<Record>;

Loader::OpenShard Shards(const std::vector<int64_t>& lengths) {
  return [lengths](int64_t shard, int64_t skip) {
    return [next = skip, shard, length = lengths[shard]]() mutable {
      return next < length ? std::optional<Record>({shard, next++}) : std::nullopt;
    };
  };
}

// What all replicas read, per optimiser step.
struct Trace {
  std::mutex mutex;
  std::map<int64_t, std::vector<Record>> steps;
  std::map<int64_t, std::set<int64_t>> totals;
  std::map<int64_t, double> weights;

  void Add(Replica& replica, const Loader& loader) {
    std::lock_guard<std::mutex> lock(mutex);
    const int64_t step = replica.job.optimizer_steps();
    const MicroBatch& micro = replica.job.core().step().micro_batch();
    EXPECT_FALSE(loader.samples().empty());
    for (int64_t i = 0; i < loader.weight(); ++i) steps[step].push_back(loader.samples()[i]);
    totals[step].insert(micro.step_total);
    weights[step] += static_cast<double>(micro.local) / static_cast<double>(micro.step_total);
  }

  void ExpectEachSampleOnce(const std::vector<int64_t>& lengths, size_t epochs) {
    std::map<Record, size_t> seen;
    for (const auto& [step, records] : steps) {
      EXPECT_THAT(totals[step], ElementsAre(static_cast<int64_t>(records.size())));
      EXPECT_NEAR(weights[step], 1, 1e-12);
      for (const Record& record : records) ++seen[record];
    }
    size_t expected = 0;
    for (const int64_t length : lengths) expected += static_cast<size_t>(length);
    EXPECT_EQ(seen.size(), expected);
    for (const auto& [record, times] : seen) {
      EXPECT_EQ(times, epochs) << "sample " << record.second << " of shard " << record.first;
    }
  }
};

// `fits`: samples that memory holds.
void Train(const std::vector<int64_t>& lengths, const StreamLoaderOptions& options, int epochs, int replicas,
           int64_t stop_after, int64_t fits, const std::string& folder, Trace* trace) {
  RunReplicas(replicas, {.checkpoint_path = folder}, [&](Replica& replica) {
    Loader loader(replica.job, static_cast<int64_t>(lengths.size()), Shards(lengths), options);
    for ([[maybe_unused]] int epoch : RemainingEpochsUntil(replica.job, epochs)) {
      if (!loader.BeginLoop()) continue;
      while (loader.Next()) {
        TrainStep(loader, [&] {
          if (static_cast<int64_t>(loader.samples().size()) > fits) throw std::bad_alloc();
        });
        trace->Add(replica, loader);
        if (!loader.is_optimizer_step()) continue;
        if (replica.job.optimizer_steps() + 1 == stop_after) replica.job.RequestStop();
        replica.job.core().loop().OnOptimizerStep(0);
      }
    }
  });
}

TEST(StreamLoader, ReadsEachSampleOnceOverAnyScheduleOfRescales) {
  std::mt19937 random(9);
  for (int schedule = 0; schedule < 25; ++schedule) {
    SCOPED_TRACE("schedule " + std::to_string(schedule));
    std::vector<int64_t> lengths(1 + random() % 9);
    for (int64_t& length : lengths) length = static_cast<int64_t>(random() % 40);
    lengths[0] += 1;
    const int64_t fits = 1 + static_cast<int64_t>(random() % 10);
    TempFolder folder;
    Trace trace;
    int64_t step = 0;
    for (int run = 0; run < 6; ++run) {
      step = run == 5 ? 1'000'000 : step + 1 + static_cast<int64_t>(random() % 6);
      const StreamLoaderOptions options = {.batch_size = 11, .seed = 3, .read_ahead = schedule % 3 * 4};
      Train(lengths, options, 2, 1 + static_cast<int>(random() % 5), step, fits, folder.path(), &trace);
    }
    trace.ExpectEachSampleOnce(lengths, 2);
  }
}

TEST(StreamLoader, KeepsTheBatchWhileShardsAreFree) {
  const std::vector<int64_t> lengths = {3, 1, 25, 2, 2, 2, 4, 8, 1, 30};
  Trace trace;
  Train(lengths, {.batch_size = 8, .shuffle_shards = false}, 1, 3, 1'000'000, 100, "", &trace);
  trace.ExpectEachSampleOnce(lengths, 1);
  // The last shard is given out when those before it are read: from then on replicas run dry.
  for (const auto& [step, records] : trace.steps) {
    bool last_begun = false;
    for (const Record& record : records) last_begun |= record.first == 9;
    if (last_begun) break;
    EXPECT_EQ(records.size(), 8u) << "step " << step;
  }
}

TEST(StreamLoader, DropLastEndsThePassWhereNoWholeBatchCanBeMade) {
  Trace trace;
  Train({9, 5, 6, 3}, {.batch_size = 4, .drop_last = true}, 1, 2, 1'000'000, 100, "", &trace);
  size_t read = 0;
  for (const auto& [step, records] : trace.steps) {
    EXPECT_EQ(records.size(), 4u) << "step " << step;
    read += records.size();
  }
  EXPECT_GE(read, 16u);
}

TEST(StreamLoader, TheLastMicroBatchIsKnown) {
  for (const bool drop_last : {false, true}) {
    RunReplicas(2, {}, [&](Replica& replica) {
      Loader loader(replica.job, 3, Shards({7, 4, 6}),
                    {.batch_size = 4, .max_local_batch_size = 1, .drop_last = drop_last});
      bool last = false;
      for (loader.BeginLoop(); loader.Next();) {
        EXPECT_FALSE(last);
        last = loader.core().IsLast();
        EXPECT_EQ(last, loader.core().IsLast());
        if (loader.is_optimizer_step()) replica.job.core().loop().OnOptimizerStep(0);
      }
      EXPECT_TRUE(last);
    });
  }
}

// Takes a sample of each of its shards in turn.
class SideBySide {
 public:
  explicit SideBySide(std::vector<int64_t> lengths) : lengths_(std::move(lengths)) {}
  static constexpr int64_t shards_at_once() { return 3; }
  void Add(int64_t shard, int64_t skip) { open_.push_back({shard, skip}); }
  bool empty() const { return open_.empty(); }
  void Clear() { open_.clear(); }
  std::optional<Record> First(int64_t shard) {
    return lengths_[shard] > 0 ? std::optional<Record>({shard, 0}) : std::nullopt;
  }
  ShardReader<Record>::Read Take() {
    most_ = std::max(most_, open_.size());
    Record at = open_.front();
    open_.pop_front();
    if (at.second == lengths_[at.first]) return {at.first, at.second};
    open_.emplace_back(at.first, at.second + 1);
    return {at.first, at.second + 1, at};
  }
  size_t open() const { return open_.size(); }
  // Most shards that were open at a time.
  size_t most() const { return most_; }

 private:
  const std::vector<int64_t> lengths_;
  std::deque<Record> open_;
  size_t most_ = 0;
};

TEST(StreamLoader, AReaderMayReadSeveralShardsSideBySide) {
  const std::vector<int64_t> lengths = {5, 1, 9, 2, 0, 7, 6, 4, 3, 8};
  TempFolder folder;
  std::mutex mutex;
  std::map<Record, int> seen;
  size_t most = 0;
  for (const int64_t stop_after : {3, 1'000'000}) {
    RunReplicas(2, {.checkpoint_path = folder.path()}, [&](Replica& replica) {
      auto reader = std::make_unique<SideBySide>(lengths);
      const SideBySide& reads = *reader;
      StreamLoaderOver<Record, SideBySide> loader(replica.job, static_cast<int64_t>(lengths.size()),
                                                  std::move(reader), {.batch_size = 6});
      for ([[maybe_unused]] int epoch : RemainingEpochsUntil(replica.job, 1)) {
        for (loader.BeginLoop(); loader.Next();) {
          std::unique_lock<std::mutex> lock(mutex);
          for (int64_t i = 0; i < loader.weight(); ++i) ++seen[loader.samples()[i]];
          most = std::max(most, reads.most());
          lock.unlock();
          if (replica.job.optimizer_steps() + 1 == stop_after) replica.job.RequestStop();
          replica.job.core().loop().OnOptimizerStep(0);
        }
      }
    });
  }
  EXPECT_EQ(most, 3u);
  EXPECT_EQ(seen.size(), 45u);
  for (const auto& [record, times] : seen) EXPECT_EQ(times, 1) << record.first << " " << record.second;
}

// Not only when it has read all that it has.
TEST(StreamLoader, WhoCanReadMoreShardsGetsThem) {
  const std::vector<int64_t> lengths = {8, 60, 60, 8, 8, 8, 8, 8, 8, 8};
  RunReplicas(1, {}, [&](Replica& replica) {
    auto reader = std::make_unique<SideBySide>(lengths);
    const SideBySide& reads = *reader;
    StreamLoaderOver<Record, SideBySide> loader(replica.job, static_cast<int64_t>(lengths.size()),
                                                std::move(reader),
                                                {.batch_size = 6, .shuffle_shards = false});
    int steps_with_three = 0;
    for (loader.BeginLoop(); loader.Next();) {
      steps_with_three += reads.open() == 3 ? 1 : 0;
      replica.job.core().loop().OnOptimizerStep(0);
    }
    // The first one lasts for four steps.
    EXPECT_GE(steps_with_three, 12);
  });
}

// More replicas than shards: some have nothing, and compute on what counts for nothing.
TEST(StreamLoader, ReplicasMayHaveNothing) {
  Trace trace;
  Train({5}, {.batch_size = 8}, 1, 4, 1'000'000, 100, "", &trace);
  trace.ExpectEachSampleOnce({5}, 1);
}

TEST(StreamLoader, EmptyShardsMakeAnEmptyLoop) {
  Trace trace;
  Train({0, 0, 0}, {.batch_size = 8}, 2, 2, 1'000'000, 100, "", &trace);
  EXPECT_TRUE(trace.steps.empty());
}

TEST(StreamLoader, AFinishedLoopIsNotReadAgain) {
  TempFolder folder;
  std::vector<Record> first, second;
  const auto run = [&](bool stop) {
    first.clear();
    second.clear();
    RunReplicas(1, {.checkpoint_path = folder.path()}, [&](Replica& replica) {
      Loader a(replica.job, 1, Shards({2}), {.batch_size = 1});
      Loader b(replica.job, 1, Shards({4}), {.batch_size = 1});
      for ([[maybe_unused]] int epoch : RemainingEpochsUntil(replica.job, 1)) {
        for (a.BeginLoop(); a.Next();) first.push_back(a.samples()[0]);
        for (b.BeginLoop(); b.Next();) {
          second.push_back(b.samples()[0]);
          if (stop && second.size() == 2) replica.job.RequestStop();
        }
      }
    });
  };
  run(/*stop=*/true);
  EXPECT_THAT(first, ElementsAre(Record(0, 0), Record(0, 1)));
  EXPECT_THAT(second, ElementsAre(Record(0, 0), Record(0, 1)));
  run(/*stop=*/false);
  EXPECT_THAT(first, ElementsAre());
  EXPECT_THAT(second, ElementsAre(Record(0, 2), Record(0, 3)));
}

TEST(StreamLoader, RefusesAnotherNumberOfShardsInTheMiddleOfALoop) {
  TempFolder folder;
  Trace trace;
  Train({5, 5}, {.batch_size = 2}, 1, 1, 2, 100, folder.path(), &trace);
  EXPECT_THAT(RunReplicas(1, {.checkpoint_path = folder.path()},
                          [&](Replica& replica) {
                            Loader(replica.job, 3, Shards({5, 5, 5}), {.batch_size = 2});
                          }),
              ElementsAre(1));
}

}  // namespace
}  // namespace adaptdl::elastic
