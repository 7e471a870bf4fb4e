// Data loaders: what all have in common, those over indices, and the order of samples alone.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "adaptdl/data_loader.h"
#include "adaptdl/sampler.h"
#include "libs/elastic/job/job_core.h"
#include "python/engine/calls.h"
#include "python/engine/loader.h"

using adaptdl::python::Call;

namespace {

class IndexLoader final : public adaptdl_loader {
 public:
  IndexLoader(adaptdl_job* job, int64_t size, const adaptdl::DataLoaderOptions& options)
      : adaptdl_loader(job), loader_(*job->job, size, options) {}

  bool Begin() override { return loader_.BeginLoop(); }
  void End() override { loader_.EndLoop(); }
  bool IsLast() override { return loader_.PeekNext(1).empty(); }

  void Next(adaptdl_batch* batch) override {
    if (!loader_.Next()) return;
    batch->more = 1;
    batch->count = static_cast<int64_t>(loader_.indices().size());
    batch->indices = loader_.indices().data();
    batch->weight = loader_.weight();
    Describe(batch);
    batch->replicas = job->job->num_replicas();
  }

  void Describe(adaptdl_batch* batch) const override {
    batch->is_optimizer_step = loader_.is_optimizer_step() ? 1 : 0;
    batch->micro_batch = loader_.micro_batch();
    batch->micro_batches = loader_.micro_batches();
    batch->batch_size = loader_.batch_size();
    batch->local_batch_size = loader_.local_batch_size();
    batch->position = loader_.position();
    batch->pass = loader_.pass();
  }

  adaptdl::AdaptiveDataLoader& loader() { return loader_; }

  // Null: none. It stays until the next call.
  const std::vector<int64_t>* Peek(int64_t ahead) {
    ahead_ = loader_.PeekNext(static_cast<int>(ahead));
    return static_cast<int64_t>(ahead_.size()) >= ahead ? &ahead_.back() : nullptr;
  }

 private:
  adaptdl::AdaptiveDataLoader loader_;
  std::vector<std::vector<int64_t>> ahead_;
};

// REQUIRES: it was opened by adaptdl_loader_open().
IndexLoader* OverIndices(adaptdl_loader* loader) { return static_cast<IndexLoader*>(loader); }

}  // namespace

int adaptdl_loader_open(adaptdl_job* job, const adaptdl_loader_options* options, adaptdl_loader** loader) {
  return Call(job, [&] {
    adaptdl::DataLoaderOptions of_engine;
    of_engine.batch_size = options->batch_size;
    of_engine.base_batch_size = options->base_batch_size;
    of_engine.max_local_batch_size = options->max_local_batch_size;
    of_engine.seed = options->seed;
    of_engine.band = options->band;
    of_engine.shuffle = options->shuffle != 0;
    of_engine.drop_last = options->drop_last != 0;
    *loader = std::make_unique<IndexLoader>(job, options->size, of_engine).release();
  });
}

int adaptdl_loader_autoscale(adaptdl_loader* loader, int64_t max_batch_size, int64_t min_local,
                             int64_t max_local, int accumulation) {
  return Call(loader->job, [&] {
    OverIndices(loader)->loader().AutoscaleBatchSize(max_batch_size, {min_local, max_local},
                                                     accumulation != 0);
  });
}

int adaptdl_loader_begin(adaptdl_loader* loader, int* begun) {
  return Call(loader->job, [&] { *begun = loader->Begin() ? 1 : 0; });
}

int adaptdl_loader_next(adaptdl_loader* loader, adaptdl_batch* batch) {
  return Call(loader->job, [&] {
    *batch = {};
    loader->Next(batch);
    if (batch->more != 0) adaptdl::python::ForeseeSteps(loader->job);
  });
}

void adaptdl_loader_read(adaptdl_loader* loader) { loader->job->job->core().loop().MarkRead(); }

int adaptdl_loader_peek(adaptdl_loader* loader, int64_t ahead, const int64_t** indices, int64_t* count) {
  return Call(loader->job, [&] {
    const std::vector<int64_t>* const found = OverIndices(loader)->Peek(ahead);
    *indices = found != nullptr ? found->data() : nullptr;
    *count = found != nullptr ? static_cast<int64_t>(found->size()) : 0;
  });
}

int adaptdl_loader_is_last(adaptdl_loader* loader, int* last) {
  return Call(loader->job, [&] { *last = loader->IsLast() ? 1 : 0; });
}

int adaptdl_loader_sizes(adaptdl_loader* loader, adaptdl_batch* batch) {
  return Call(loader->job, [&] {
    *batch = {};
    loader->Describe(batch);
  });
}

int adaptdl_loader_end(adaptdl_loader* loader) {
  return Call(loader->job, [&] { loader->End(); });
}

int adaptdl_loader_close(adaptdl_loader* loader) {
  const int status = Call(loader->job, [&] { loader->End(); });
  delete loader;
  return status;
}

int64_t adaptdl_sampler_indices(int64_t size, int shuffle, uint64_t seed, int64_t epoch, int64_t index,
                                int rank, int replicas, int64_t* indices, int64_t room) {
  adaptdl::ElasticSampler sampler(size, shuffle != 0, seed);
  sampler.SetEpoch(epoch, index);
  const std::vector<int64_t> share = sampler.Indices(rank, replicas);
  std::copy_n(share.begin(), std::min<int64_t>(room, static_cast<int64_t>(share.size())), indices);
  return static_cast<int64_t>(share.size());
}
