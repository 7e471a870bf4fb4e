// Data loaders over streams: the interpreter reads the shards that this replica is given, and numbers their samples.

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "adaptdl/stream_loader.h"
#include "python/engine/calls.h"
#include "python/engine/loader.h"

using adaptdl::python::Call;
using adaptdl::python::CallBack;

namespace {

// As adaptdl::ShardReader, by callbacks. A sample is its number.
class CallingReader {
 public:
  struct Read {
    int64_t shard = 0;
    int64_t position = 0;
    std::optional<int64_t> sample = std::nullopt;
  };

  CallingReader(adaptdl_job* job, const adaptdl_stream_calls& calls, int64_t shards_at_once)
      : job_(job), calls_(calls), shards_at_once_(shards_at_once) {}

  int64_t shards_at_once() const { return shards_at_once_; }
  bool empty() const { return open_shards_ == 0; }

  void Add(int64_t shard, int64_t skip) {
    CallBack(job_, calls_.lease, shard, skip);
    ++open_shards_;
  }

  Read Take() {
    adaptdl_stream_sample taken = {};
    CallBack(job_, calls_.take, &taken);
    if (taken.number >= 0) return {taken.shard, taken.position, taken.number};
    --open_shards_;
    return {taken.shard, taken.position};
  }

  void Clear() {
    CallBack(job_, calls_.forget);
    open_shards_ = 0;
  }

  std::optional<int64_t> First(int64_t shard) {
    int64_t number = -1;
    CallBack(job_, calls_.first, shard, &number);
    return number >= 0 ? std::optional(number) : std::nullopt;
  }

 private:
  adaptdl_job* const job_;
  const adaptdl_stream_calls calls_;
  const int64_t shards_at_once_;
  int64_t open_shards_ = 0;
};

class ShardLoader final : public adaptdl_loader {
 public:
  ShardLoader(adaptdl_job* job, int64_t shards, std::unique_ptr<CallingReader> reader,
              const adaptdl::StreamLoaderOptions& options)
      : adaptdl_loader(job), loader_(*job->job, shards, std::move(reader), options) {}

  bool Begin() override { return loader_.BeginLoop(); }
  void End() override { loader_.EndLoop(); }
  bool IsLast() override { return loader_.core().IsLast(); }

  void Next(adaptdl_batch* batch) override {
    if (!loader_.Next()) return;
    batch->more = 1;
    batch->count = static_cast<int64_t>(loader_.samples().size());
    batch->indices = loader_.samples().data();
    batch->weight = loader_.weight();
    Describe(batch);
    batch->replicas = job->job->num_replicas();
  }

  void Describe(adaptdl_batch* batch) const override {
    const adaptdl::StreamLoop& loop = loader_.core();
    batch->is_optimizer_step = loop.is_optimizer_step() ? 1 : 0;
    batch->micro_batch = loop.micro_batch();
    batch->micro_batches = loop.micro_batches();
    batch->batch_size = loop.batch_size();
    batch->local_batch_size = loop.local_batch_size();
    batch->position = loop.position();
  }

 private:
  adaptdl::StreamLoaderOver<int64_t, CallingReader> loader_;
};

}  // namespace

int adaptdl_stream_open(adaptdl_job* job, const adaptdl_loader_options* options, int64_t shards_at_once,
                        const adaptdl_stream_calls* calls, adaptdl_loader** loader) {
  return Call(job, [&] {
    adaptdl::StreamLoaderOptions of_engine;
    of_engine.batch_size = options->batch_size;
    of_engine.max_local_batch_size = options->max_local_batch_size;
    of_engine.seed = options->seed;
    of_engine.shuffle_shards = options->shuffle != 0;
    of_engine.drop_last = options->drop_last != 0;
    auto reader = std::make_unique<CallingReader>(job, *calls, shards_at_once);
    *loader = std::make_unique<ShardLoader>(job, options->size, std::move(reader), of_engine).release();
  });
}
