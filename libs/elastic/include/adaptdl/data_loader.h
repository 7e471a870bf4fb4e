// A loop over a data set, shared by all replicas of a job, that any number of replicas can take up where
// others left it. This is the core, over sample indices; torch_data_loader.h puts a LibTorch data set on top,
// stream_loader.h is for data without indices, and custom loaders are built on this one.
//
//   AdaptiveDataLoader loader(*job, data_set_size, {.batch_size = 64});
//   if (loader.BeginLoop()) {
//     while (loader.Next()) { ... loader.indices() ... }
//   }
//
// A pass over the data set is cut into optimiser steps, each of the next batch_size samples (the last one of
// what is left). A step's samples are dealt out to the replicas in strides; what one replica cannot hold at
// once it computes in several micro-batches. Each Next() is one micro-batch. None is empty: a replica without
// samples is given one to compute with all the same, whose gradient counts for nothing (weight() is 0 then).
//
// The total batch size is one of:
//   fixed    (default) what was asked for, at any number of replicas.
//   band     near that, so that all replicas have as many samples (DataLoaderOptions::band).
//   goodput  what trains fastest, by what the job measures of itself (AutoscaleBatchSize()). It changes
//            between any two steps. A loop then ends when as much progress has been made as a pass of steps
//            at the initial batch size makes, over more or fewer samples; each pass that it begins has an
//            order of its own, and reads each sample at most once.
//
// Replay after a restart: the program runs its epoch body again. A loop that was finished before is skipped
// (BeginLoop() is false), the interrupted one goes on with the sample after the last finished step.
//
// Memory: when a micro-batch does not fit, RetryAfterOutOfMemory() begins the step anew with smaller ones:
//
//   adaptdl::TrainStep(loader, [&] { ... forward, backward, Step() ... });
//
// Loops must not be nested. Loaders are made in the same order on all replicas and in every run.
//
// Thread-safety: the training thread only. The job must outlive it.

#ifndef ADAPTDL_DATA_LOADER_H_
#define ADAPTDL_DATA_LOADER_H_

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "adaptdl/job.h"
#include "adaptdl/sampler.h"

namespace adaptdl {

class TensorBoardWriter;

namespace elastic {
class LocalBound;
}

struct DataLoaderOptions {
  // Samples per optimiser step, over all replicas. At least 1.
  int64_t batch_size = 1;
  // Batch size that the learning rate is meant for: for batches of another size the scaling rule adapts it,
  // and gradient statistics, gains and progress are relative to it. 0: batch_size.
  int64_t base_batch_size = 0;
  // Whether each epoch takes the samples in an order of its own.
  bool shuffle = true;
  // Key of these orders. The same seed gives the same orders on every machine.
  uint64_t seed = 0;
  // Whether the samples that make no whole batch at the end of a pass are left out.
  bool drop_last = false;
  // Part of batch_size by which the total may differ from it, in [0, 1), so that all replicas have as many
  // samples. 0: fixed.
  double band = 0;
  // Most samples that a replica computes at once; larger shares become several micro-batches. 0: no bound.
  int64_t max_local_batch_size = 0;
  // Threads that read batches while others are computed, each with a copy of the data set. 0: the training
  // thread reads.
  int workers = 0;
  // Batches that each of them reads ahead. At least 1.
  int batches_per_worker = 2;
};

// Samples that a replica computes at once, inclusive. 0: no bound.
struct LocalBatchSizes {
  int64_t min = 0;
  int64_t max = 0;
};

class AdaptiveDataLoader {
 public:
  AdaptiveDataLoader(Job& job, int64_t data_set_size, const DataLoaderOptions& options);
  // Ends a loop in progress.
  ~AdaptiveDataLoader();
  AdaptiveDataLoader(const AdaptiveDataLoader&) = delete;
  AdaptiveDataLoader& operator=(const AdaptiveDataLoader&) = delete;

  // Lets the total batch size change between the base batch size and `max_batch_size`, as is best for the
  // training's progress. It begins with batch_size, which must not be smaller than the base. This loader is
  // then the one that the job trains with; there can only be one at a time. `accumulation`: whether more
  // samples per step than the replicas can hold at once are worth considering. All replicas call it alike,
  // outside the loop.
  void AutoscaleBatchSize(int64_t max_batch_size, const LocalBatchSizes& local = {},
                          bool accumulation = false);

  // Starts a loop, or goes on with an interrupted one. False: it was finished before a restart; no Next()
  // then.
  bool BeginLoop();

  // Finishes the micro-batch in progress, if any, and goes on to the next one. False: the loop has ended.
  bool Next();

  // Ends the loop before its end, as break does. Nothing happens when none is in progress.
  void EndLoop();

  // Samples of this replica's micro-batch, never empty.
  const std::vector<int64_t>& indices() const { return indices_; }

  // How many of indices() count: all, or 0 for a replica that got none.
  int64_t weight() const { return weight_; }

  // Number of this micro-batch in its optimiser step, from 0.
  int64_t micro_batch() const { return micro_; }

  // Whether the optimiser runs after this micro-batch, or more of them are to come before.
  bool is_optimizer_step() const { return micro_ + 1 == step_.micro_batches; }
  bool is_accumulation_step() const { return !is_optimizer_step(); }

  // For what reads the samples of indices(): they are there. Time until then is reported as waiting for samples, and
  // not as computing. Optional.
  void MarkRead();

  // What indices() will be after the next Next(), and the ones after it, up to `count`; fewer at the end of
  // the pass. An expectation: a change of the batch size changes it.
  std::vector<std::vector<int64_t>> PeekNext(int count) const;

  // Samples of the step in progress over all replicas (in a loop's short last step fewer than were chosen);
  // before the first step, what was chosen.
  int64_t batch_size() const;
  // Most samples that one replica computes at once, and micro-batches of one optimiser step.
  int64_t local_batch_size() const;
  int64_t micro_batches() const;

  // Samples of the pass that finished steps have consumed, and passes that the loop has finished.
  int64_t position() const;
  int64_t pass() const;

  // Total_Batch_Size, Local_Batch_Size and Accumulation_Steps, as tags that begin with `prefix`.
  void ToTensorBoard(TensorBoardWriter& writer, int64_t step, const std::string& prefix = "") const;

  // To be called when computing on this micro-batch failed with `error`. True: memory was exhausted; the step
  // begins anew with smaller micro-batches, and indices() are those of the first of them. The bound is
  // remembered, and the other replicas learn of it. False: it was something else, or cannot be helped (a
  // single sample does not fit, or gradients of the step are on their way already): rethrow it.
  bool RetryAfterOutOfMemory(const std::exception& error);

 private:
  // Samples [begin, begin + count) of the pass, in micro-batches of at most `size` on this replica.
  struct Step {
    int64_t begin = 0;
    int64_t count = 0;
    int64_t micro_batches = 1;
    int64_t size = 1;
  };
  // The batch size that is to be used from the next step on. local 0: no bound.
  struct Batch {
    int64_t total = 1;
    int64_t local = 0;
  };

  bool adaptive() const { return max_batch_size_ > 0; }
  int64_t base_batch_size() const {
    return options_.base_batch_size > 0 ? options_.base_batch_size : options_.batch_size;
  }
  Batch Chosen() const;
  Batch ChosenByGoodput() const;
  int64_t TotalWithinBand(int64_t local) const;
  // The step that starts at sample `begin` of the pass. Count 0: the pass ends there.
  Step StepAt(int64_t begin) const;
  Step Cut(int64_t begin, int64_t count, int64_t local) const;
  std::vector<int64_t> ShareOf(const Step& step, int64_t micro, int64_t* weight) const;
  // Progress that the loop makes, and of it how much is done: in steps at the base batch size.
  double LoopLength() const;
  double LoopProgress() const;
  bool BeginStep();
  void BeginMicroBatch(int64_t micro);
  void FinishStep();
  void FinishPass();

  Job& job_;
  const DataLoaderOptions options_;
  const std::string name_;
  ElasticSampler sampler_;
  // Of AutoscaleBatchSize(). 0: the batch size stays.
  int64_t max_batch_size_ = 0;
  LocalBatchSizes local_;
  bool accumulation_ = false;
  // What memory can hold.
  const std::unique_ptr<elastic::LocalBound> bound_;
  bool looping_ = false;
  bool in_step_ = false;
  // Steps of the pass that this process finished, and progress of the job before them.
  int64_t pass_steps_ = 0;
  double pass_begin_ = 0;
  Batch batch_;
  Step step_;
  int64_t micro_ = 0;
  int attempt_ = 0;
  std::vector<int64_t> indices_;
  int64_t weight_ = 0;
};

// The loader whose loop is in progress. Null: none.
AdaptiveDataLoader* CurrentDataLoader(Job& job);

// Whether `error` says that memory is exhausted: of the CPU or of a GPU.
bool IsOutOfMemory(const std::exception& error);

// Runs `body` on the micro-batch in progress of `loader` (of any kind), and again while memory does not
// suffice: in smaller micro-batches, of which this is the first.
template <typename Loader, typename Body>
void TrainStep(Loader& loader, Body&& body) {
  for (;;) {
    try {
      body();
      return;
    } catch (const std::exception& error) {
      if (!loader.RetryAfterOutOfMemory(error)) throw;
    }
  }
}

}  // namespace adaptdl

#endif  // ADAPTDL_DATA_LOADER_H_
