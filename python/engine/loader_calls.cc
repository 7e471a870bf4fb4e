// Data loaders, and the order of samples.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "adaptdl/data_loader.h"
#include "adaptdl/sampler.h"
#include "python/engine/calls.h"

using adaptdl::python::Call;

struct adaptdl_loader {
  adaptdl_job* job = nullptr;
  std::unique_ptr<adaptdl::AdaptiveDataLoader> loader = {};
  // Of adaptdl_loader_peek().
  std::vector<std::vector<int64_t>> ahead = {};
};

namespace {

void Describe(const adaptdl::AdaptiveDataLoader& loader, adaptdl_batch* batch) {
  batch->is_optimizer_step = loader.is_optimizer_step() ? 1 : 0;
  batch->micro_batch = loader.micro_batch();
  batch->micro_batches = loader.micro_batches();
  batch->batch_size = loader.batch_size();
  batch->local_batch_size = loader.local_batch_size();
  batch->position = loader.position();
  batch->pass = loader.pass();
}

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
    auto opened = std::make_unique<adaptdl_loader>();
    opened->job = job;
    opened->loader = std::make_unique<adaptdl::AdaptiveDataLoader>(*job->job, options->size, of_engine);
    *loader = opened.release();
  });
}

int adaptdl_loader_autoscale(adaptdl_loader* loader, int64_t max_batch_size, int64_t min_local,
                             int64_t max_local, int accumulation) {
  return Call(loader->job, [&] {
    loader->loader->AutoscaleBatchSize(max_batch_size, {min_local, max_local}, accumulation != 0);
  });
}

int adaptdl_loader_begin(adaptdl_loader* loader, int* begun) {
  return Call(loader->job, [&] { *begun = loader->loader->BeginLoop() ? 1 : 0; });
}

int adaptdl_loader_next(adaptdl_loader* loader, adaptdl_batch* batch) {
  return Call(loader->job, [&] {
    const bool more = loader->loader->Next();
    *batch = {};
    if (!more) return;
    batch->more = 1;
    batch->count = static_cast<int64_t>(loader->loader->indices().size());
    batch->indices = loader->loader->indices().data();
    batch->weight = loader->loader->weight();
    Describe(*loader->loader, batch);
    batch->replicas = loader->job->job->num_replicas();
    adaptdl::python::ForeseeSteps(loader->job);
  });
}

int adaptdl_loader_peek(adaptdl_loader* loader, int64_t ahead, const int64_t** indices, int64_t* count) {
  return Call(loader->job, [&] {
    loader->ahead = loader->loader->PeekNext(static_cast<int>(ahead));
    const bool there = static_cast<int64_t>(loader->ahead.size()) >= ahead;
    *indices = there ? loader->ahead.back().data() : nullptr;
    *count = there ? static_cast<int64_t>(loader->ahead.back().size()) : 0;
  });
}

int adaptdl_loader_sizes(adaptdl_loader* loader, adaptdl_batch* batch) {
  return Call(loader->job, [&] {
    *batch = {};
    Describe(*loader->loader, batch);
  });
}

int adaptdl_loader_end(adaptdl_loader* loader) {
  return Call(loader->job, [&] { loader->loader->EndLoop(); });
}

int adaptdl_loader_close(adaptdl_loader* loader) {
  const int status = Call(loader->job, [&] { loader->loader.reset(); });
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
