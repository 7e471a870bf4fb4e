// Jobs that train with an adaptive loader over any schedule of restarts, and what their replicas computed.

#ifndef ADAPTDL_TESTS_LIBS_ELASTIC_DATA_LOADER_TRACE_H_
#define ADAPTDL_TESTS_LIBS_ELASTIC_DATA_LOADER_TRACE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "adaptdl/data_loader.h"
#include "adaptdl/epochs.h"
#include "gtest/gtest.h"
#include "tests/libs/elastic/replica_threads.h"

namespace adaptdl::elastic {

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

inline void Propose(JobCore& core, const goodput::BatchConfig& batch) {
  core.batches().Propose(batch, core.team().membership().group);
}

// One run of a job, which ends by itself or is stopped.
struct Segment {
  int replicas = 1;
  // Optimiser steps of the whole job after which to stop; beyond the end: not at all.
  int64_t stop_after = 1'000'000;
};

// Up to `total` steps, of up to `longest` each.
inline std::vector<Segment> RandomSegments(std::mt19937& random, int64_t total, int longest) {
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
inline void Train(int64_t size, int epochs, const DataLoaderOptions& options,
                  const std::vector<Segment>& segments, const Hooks& hooks, Trace* trace,
                  const std::string& folder) {
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

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_TESTS_LIBS_ELASTIC_DATA_LOADER_TRACE_H_
