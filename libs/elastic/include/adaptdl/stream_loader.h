// A loop over a data set that is a number of streams (shards: files, partitions of a queue) of unknown
// length, shared by all replicas of a job, that any number of replicas can take up where others left it.
//
//   adaptdl::StreamLoader<Record> loader(*job, files.size(), [&](int64_t shard, int64_t skip) {
//     auto reader = std::make_shared<Reader>(files[shard], skip);   // without the first `skip` samples
//     return [reader] { return reader->Next(); };                   // std::optional<Record>
//   }, {.batch_size = 64});
//   for (loader.BeginLoop(); loader.Next();) { ... loader.samples() ... }
//
// Each shard is leased to one replica, which reads it to its end and then gets the next one that is free, so
// that no replica waits for shards that others have. (One that reads several side by side has several, until
// few are left.) The total batch stays what was asked for while shards are free; after that, replicas whose
// shards have ended hold no samples, and steps become smaller.
//
// How far each shard was consumed is part of the checkpoints. After a restart, unfinished shards are leased
// anew, and go on after the last sample of the last finished step: each sample is read once, over any
// sequence of re-scales. (A replica that is lost takes with it how far its shards were read: the job then
// goes on from its checkpoint.) A shard must give the same samples in the same order each time.
//
// Like AdaptiveDataLoader in all else: each Next() is a micro-batch, none is empty (weight() is 0 for samples
// that count for nothing), finished loops are skipped after a restart, and TrainStep() retries when memory is
// exhausted.
//
// Thread-safety: the training thread only. Streams are opened and read there too or, with `read_ahead`, by a
// thread of the loader, never by two at once. The job must outlive it.

#ifndef ADAPTDL_STREAM_LOADER_H_
#define ADAPTDL_STREAM_LOADER_H_

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adaptdl/job.h"
#include "adaptdl/shard_reader.h"

namespace adaptdl {

class TensorBoardWriter;

struct StreamLoaderOptions {
  // Samples per optimiser step, over all replicas. At least 1.
  int64_t batch_size = 1;
  // Whether each epoch takes the shards in an order of its own, and the key of these orders.
  bool shuffle_shards = true;
  uint64_t seed = 0;
  // Most samples that a replica computes at once; larger shares become several micro-batches. 0: no bound.
  int64_t max_local_batch_size = 0;
  // Samples that a thread of the loader's own reads ahead. 0: the training thread reads them.
  int64_t read_ahead = 0;
  // Whether the pass ends where no whole batch can be made any more. What is left of the shards is not read then.
  bool drop_last = false;
};

// What does not depend on the kind of samples: leases, steps, positions. For StreamLoader.
class StreamLoop {
 public:
  // `at_once`: shards that a replica is given at a time, as it reads so many side by side.
  StreamLoop(Job& job, int64_t shards, const StreamLoaderOptions& options, int64_t at_once = 1);
  ~StreamLoop();
  StreamLoop(const StreamLoop&) = delete;
  StreamLoop& operator=(const StreamLoop&) = delete;

  bool BeginLoop();
  void EndLoop();
  bool looping() const;
  bool in_step() const;

  // Samples that this replica holds of a full batch.
  int64_t Share() const;

  struct Lease {
    int64_t shard = 0;
    int64_t skip = 0;
  };
  // The shards that this replica was given since the last call.
  std::vector<Lease> TakeLeases();

  // Whether all shards were leased anew since the last call: what was read ahead is void.
  bool TakeDealt();

  // Whether the next step is complete, or has all that is left, with `ready` samples of this replica. False:
  // shards were given out; read on, then ask again. Collective, though it rarely communicates.
  bool IsReady(int64_t ready);
  // Samples of the next step, over all replicas. Valid once it is ready.
  int64_t ready_samples() const;
  // Whether these are none, or too few, and the loop is over.
  bool is_over() const;

  // Begins the step with these samples, by shard. `next`: how many this replica has for the one after it.
  void BeginStep(const std::map<int64_t, int64_t>& samples, int64_t next);
  // This shard turned out to have so many samples.
  void SetLength(int64_t shard, int64_t samples);
  // The micro-batch in progress: samples [begin, end) of this replica's step.
  int64_t begin() const;
  int64_t end() const;
  bool is_optimizer_step() const;
  // Goes on to the next micro-batch of the step. REQUIRES: !is_optimizer_step().
  void NextMicroBatch();
  // Its samples are there, as AdaptiveDataLoader has it.
  void MarkRead();
  void FinishStep();
  bool RetryAfterOutOfMemory(const std::exception& error);
  // Whether no micro-batch comes after the one in progress, as it looks now: shards that nobody has begun are taken
  // to hold samples. Collective in a step's last micro-batch.
  bool IsLast();

  // Samples of the step in progress over all replicas; before the first step, what was asked for.
  int64_t batch_size() const;
  // Most samples that this replica computes at once, its micro-batches in a step, and the number of the present one.
  int64_t local_batch_size() const;
  int64_t micro_batches() const;
  int64_t micro_batch() const;
  // Samples of the pass that finished steps have consumed.
  int64_t position() const;
  void ToTensorBoard(TensorBoardWriter& writer, int64_t step, const std::string& prefix) const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

// The loop over what a reader reads: see ShardReader for what it has to have.
template <typename Sample, typename Reader>
class StreamLoaderOver {
 public:
  StreamLoaderOver(Job& job, int64_t shards, std::unique_ptr<Reader> reader,
                   const StreamLoaderOptions& options)
      : shards_(shards), loop_(job, shards, options, reader->shards_at_once()), reader_(std::move(reader)) {}

  // As AdaptiveDataLoader's.
  bool BeginLoop() { return loop_.BeginLoop(); }

  bool Next() {
    if (!loop_.looping()) return false;
    if (loop_.in_step() && !loop_.is_optimizer_step()) {
      loop_.NextMicroBatch();
      SetSamples();
      return true;
    }
    if (loop_.in_step()) loop_.FinishStep();
    do {
      Fill();
    } while (!loop_.IsReady(static_cast<int64_t>(ready_.size())));
    if (loop_.is_over()) {
      loop_.EndLoop();
      return false;
    }
    BeginStep();
    return true;
  }

  void EndLoop() { loop_.EndLoop(); }

  bool RetryAfterOutOfMemory(const std::exception& error) {
    if (!loop_.RetryAfterOutOfMemory(error)) return false;
    SetSamples();
    return true;
  }

  // This replica's micro-batch, never empty.
  const std::vector<Sample>& samples() const { return samples_; }
  // How many of them count: all, or 0.
  int64_t weight() const { return loop_.end() - loop_.begin(); }
  bool is_optimizer_step() const { return loop_.is_optimizer_step(); }
  bool is_accumulation_step() const { return !is_optimizer_step(); }

  // As AdaptiveDataLoader's.
  void ToTensorBoard(TensorBoardWriter& writer, int64_t step, const std::string& prefix = "") const {
    loop_.ToTensorBoard(writer, step, prefix);
  }

  // What it is built on: batch sizes, position.
  StreamLoop& core() { return loop_; }
  const StreamLoop& core() const { return loop_; }

 private:
  struct Read {
    int64_t shard;
    Sample sample;
  };

  // Reads this replica's share of a step, as far as its shards have it.
  void Fill() {
    if (loop_.TakeDealt()) {
      reader_->Clear();
      ready_.clear();
    }
    for (const StreamLoop::Lease& lease : loop_.TakeLeases()) reader_->Add(lease.shard, lease.skip);
    while (static_cast<int64_t>(ready_.size()) < loop_.Share() && !reader_->empty()) {
      auto read = reader_->Take();
      if (read.sample) {
        ready_.push_back({read.shard, *std::move(read.sample)});
      } else {
        loop_.SetLength(read.shard, read.position);
      }
    }
  }

  void BeginStep() {
    step_ = std::move(ready_);
    ready_.clear();
    std::map<int64_t, int64_t> counts;
    for (const Read& read : step_) ++counts[read.shard];
    // One step ahead, so that the exchange of this step tells all replicas how large the next one is.
    Fill();
    loop_.BeginStep(counts, static_cast<int64_t>(ready_.size()));
    SetSamples();
  }

  void SetSamples() {
    samples_.clear();
    for (int64_t i = loop_.begin(); i < loop_.end(); ++i) samples_.push_back(step_[i].sample);
    if (samples_.empty()) {
      samples_.push_back(StandIn());
    } else {
      stand_in_ = samples_.front();
    }
    loop_.MarkRead();
  }

  // Something to compute with that counts for nothing.
  const Sample& StandIn() {
    for (int64_t shard = 0; !stand_in_; ++shard) stand_in_ = reader_->First(shard % shards_);
    return *stand_in_;
  }

  const int64_t shards_;
  StreamLoop loop_;
  // Of the leased shards that have not ended.
  const std::unique_ptr<Reader> reader_;
  // Of the next step, and of the one in progress.
  std::vector<Read> ready_;
  std::vector<Read> step_;
  std::vector<Sample> samples_;
  std::optional<Sample> stand_in_;
};

template <typename Sample>
class StreamLoader : public StreamLoaderOver<Sample, ShardReader<Sample>> {
 public:
  using Stream = typename ShardReader<Sample>::Stream;
  using OpenShard = typename ShardReader<Sample>::OpenShard;

  StreamLoader(Job& job, int64_t shards, OpenShard open, const StreamLoaderOptions& options)
      : StreamLoaderOver<Sample, ShardReader<Sample>>(
            job, shards, std::make_unique<ShardReader<Sample>>(std::move(open), options.read_ahead),
            options) {}
};

}  // namespace adaptdl

#endif  // ADAPTDL_STREAM_LOADER_H_
