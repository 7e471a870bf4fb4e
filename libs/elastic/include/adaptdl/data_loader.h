// A loop over a data set, shared by all replicas of a job, that any number of replicas can take up where
// others left it. This is the core, over sample indices; torch_data_loader.h puts a LibTorch data set on top.
//
//   AdaptiveDataLoader loader(*job, data_set_size, {.batch_size = 64});
//   if (loader.BeginLoop()) {
//     while (loader.Next()) { ... loader.indices() ... }
//   }
//
// batch_size is the total over all replicas and stays what it is with any number of them: each step takes the
// next batch_size samples of the pass (the last step what is left) and deals them out. A replica that gets
// none is given one sample to compute with all the same, whose gradient counts for nothing: weight() is 0
// then.
//
// Replay after a restart: the program runs its epoch body again. A loop that was finished before is skipped
// (BeginLoop() is false), the interrupted one goes on with the sample after the last finished step.
//
// Loops must not be nested. Loaders are made in the same order on all replicas and in every run.
//
// Thread-safety: the training thread only. The job must outlive it.

#ifndef ADAPTDL_DATA_LOADER_H_
#define ADAPTDL_DATA_LOADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "adaptdl/job.h"
#include "adaptdl/sampler.h"

namespace adaptdl {

struct DataLoaderOptions {
  // Samples per optimiser step, over all replicas. At least 1.
  int64_t batch_size = 1;
  // Whether each epoch takes the samples in an order of its own.
  bool shuffle = true;
  // Key of these orders. The same seed gives the same orders on every machine.
  uint64_t seed = 0;
  // Whether the next batch is read by a thread of its own while the current one is computed.
  bool prefetch = false;
};

class AdaptiveDataLoader {
 public:
  AdaptiveDataLoader(Job& job, int64_t data_set_size, const DataLoaderOptions& options);
  // Ends a loop in progress.
  ~AdaptiveDataLoader();
  AdaptiveDataLoader(const AdaptiveDataLoader&) = delete;
  AdaptiveDataLoader& operator=(const AdaptiveDataLoader&) = delete;

  // Starts a loop, or goes on with an interrupted one. False: it was finished before a restart; no Next()
  // then.
  bool BeginLoop();

  // Finishes the step in progress, if any, and goes on to the next one. False: the loop has ended.
  bool Next();

  // Ends the loop before its end, as break does. Nothing happens when none is in progress.
  void EndLoop();

  // Samples of this replica's step, never empty.
  const std::vector<int64_t>& indices() const { return indices_; }

  // How many of indices() count: all, or 0 for a replica that got none.
  int64_t weight() const { return weight_; }

  // What indices() will be after the next Next(). Empty: the loop ends then.
  std::vector<int64_t> PeekNext();

  // Samples per optimiser step over all replicas, and the largest share of one replica.
  int64_t batch_size() const { return options_.batch_size; }
  int64_t local_batch_size() const;

  // Samples of the pass that finished steps have consumed.
  int64_t position() const;

 private:
  struct Step {
    int64_t begin = 0;
    int64_t count = 0;
  };

  // The step that starts at sample `begin` of the pass.
  Step StepAt(int64_t begin) const;
  std::vector<int64_t> ShareOf(const Step& step, int64_t* weight) const;
  void FinishStep();

  Job& job_;
  const DataLoaderOptions options_;
  const std::string name_;
  ElasticSampler sampler_;
  bool looping_ = false;
  bool in_step_ = false;
  Step step_;
  std::vector<int64_t> indices_;
  int64_t weight_ = 0;
};

}  // namespace adaptdl

#endif  // ADAPTDL_DATA_LOADER_H_
