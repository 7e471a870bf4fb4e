#include "adaptdl/stream_loader.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "adaptdl/data_loader.h"
#include "adaptdl/sampler.h"
#include "adaptdl/tensorboard.h"
#include "libs/base/ceil_div.h"
#include "libs/elastic/data/local_bound.h"
#include "libs/elastic/job/job_core.h"
#include "nlohmann/json.hpp"

namespace adaptdl {
class StreamLoop::Impl {
  using JobCore = elastic::JobCore;

  struct Shard {
    // Samples that finished steps have consumed.
    int64_t consumed = 0;
    // Whether there are no others. Known to its owner, and to all after a checkpoint.
    bool done = false;
    // Rank that reads it. Negative: nobody does.
    int owner = -1;
  };

  // How far the shards of a loop are, in checkpoints.
  class ShardTable final : public CheckpointState {
   public:
    ShardTable(JobCore* core, std::string name) : core_(core), name_(std::move(name)) {}

    // Empty: no loop is in progress.
    std::vector<Shard> shards;

    std::string name() const override { return name_; }

    // What the owners know becomes known to all.
    void Sync() override {
      nlohmann::json own = nlohmann::json::array();
      for (size_t i = 0; i < shards.size(); ++i) {
        if (shards[i].owner == core_->team().membership().rank)
          own.push_back({i, shards[i].consumed, shards[i].done});
      }
      for (const std::string& text : core_->team().Gather(own.dump())) {
        for (const auto& item : nlohmann::json::parse(text)) {
          Shard& shard = shards.at(item.at(0));
          shard.consumed = item.at(1);
          shard.done = item.at(2);
        }
      }
    }

    std::string Save() override {
      nlohmann::json rows = nlohmann::json::array();
      for (const Shard& shard : shards) rows.push_back({shard.consumed, shard.done});
      return rows.dump();
    }

    bool Load(const std::string& bytes) override {
      try {
        shards.clear();
        for (const auto& row : nlohmann::json::parse(bytes)) shards.push_back({row.at(0), row.at(1)});
        return true;
      } catch (const std::exception& error) {
        return false;
      }
    }

   private:
    JobCore* const core_;
    const std::string name_;
  };

 public:
  Impl(Job& job, int64_t shards, const StreamLoaderOptions& options, int64_t at_once)
      : job_(job),
        core_(job.core()),
        num_shards_(shards),
        at_once_(at_once),
        options_(options),
        name_(core_.replay().NewLoaderName()),
        bound_(&core_, core_.replay().LastLoaderKind(), options.max_local_batch_size),
        table_(&core_, absl::StrCat("adaptdl-stream-", name_)) {
    if (shards < 1) core_.ending().FailUsage(absl::StrCat("the data set has ", shards, " shards; give some"));
    if (options.batch_size < 1) {
      core_.ending().FailUsage(absl::StrCat("batch_size is ", options.batch_size, "; give at least 1"));
    }
    if (options.read_ahead < 0) {
      core_.ending().FailUsage(absl::StrCat("read_ahead is ", options.read_ahead, "; give at least 0"));
    }
    if (core_.replay().in_loop())
      core_.ending().FailUsage("a data loader cannot be made within a data loader's loop");
    job_.Register(&table_);
    if (!table_.shards.empty() && static_cast<int64_t>(table_.shards.size()) != shards) {
      core_.ending().FailUsage(absl::StrCat("the data set has ", shards,
                                            " shards; when the loop was interrupted it had ",
                                            table_.shards.size()));
    }
  }

  ~Impl() {
    EndLoop();
    job_.Unregister(&table_);
  }

  bool BeginLoop() {
    if (core_.replay().in_loop()) core_.ending().FailUsage("loops over data loaders cannot be nested");
    if (!core_.replay().BeginLoop(name_)) return false;
    looping_ = true;
    in_step_ = false;
    if (table_.shards.empty()) table_.shards.resize(num_shards_);
    // Only the replica that reads a shard knows how far it is.
    core_.team().group().ForbidRecovery(true);
    core_.team().OnGroupChange(this, [this](bool /*keeps_step*/) { DealShards(); });
    DealShards();
    return true;
  }

  // Leases all that is left anew. What was read ahead is to be read again.
  void DealShards() {
    known_ = false;
    dealt_ = true;
    lengths_.clear();
    leases_.clear();
    for (Shard& shard : table_.shards) shard.owner = -1;
    const int epoch = std::max(core_.replay().current_epoch(), 0);
    std::vector<int64_t> order(num_shards_);
    for (int64_t i = 0; i < num_shards_; ++i) order[i] = i;
    if (options_.shuffle_shards) order = PortablePermutation(num_shards_, options_.seed, epoch, 0);
    // Shards that were begun come first.
    std::stable_partition(order.begin(), order.end(),
                          [this](int64_t shard) { return table_.shards[shard].consumed > 0; });
    free_.clear();
    for (const int64_t shard : order) {
      if (!table_.shards[shard].done) free_.push_back(shard);
    }
    leased_ = 0;
    Give(std::vector<int64_t>(job_.num_replicas(), Wanted()));
  }

  bool TakeDealt() { return std::exchange(dealt_, false); }

  void EndLoop() {
    if (!looping_) return;
    looping_ = false;
    in_step_ = false;
    core_.team().group().ForbidRecovery(false);
    core_.team().OnGroupChange(this, nullptr);
    table_.shards.clear();
    free_.clear();
    leases_.clear();
    core_.loop().signal().Set(0, 0);
    core_.step().SetMicroBatch({});
    core_.loop().EndSteps();
    core_.replay().FinishLoop(name_);
  }

  int64_t Share() const {
    const int64_t replicas = job_.num_replicas();
    return options_.batch_size / replicas + (job_.rank() < options_.batch_size % replicas ? 1 : 0);
  }

  bool IsReady(int64_t ready) {
    ready_samples_ = known_ ? core_.loop().signal().first() : core_.team().SumOf(ready);
    const bool somebody_wants = known_ && core_.loop().signal().second() > 0;
    const bool enough = ready_samples_ >= options_.batch_size;
    known_ = true;
    if (free_.empty() || (enough && !somebody_wants)) return true;
    GiveShards();
    known_ = enough;
    return enough;
  }

  void BeginStep(const std::map<int64_t, int64_t>& samples, int64_t next) {
    step_ = samples;
    share_ = 0;
    for (const auto& [shard, count] : samples) share_ += count;
    core_.loop().signal().Set(next, Wanted());
    next_ = next;
    is_last_.reset();
    in_step_ = true;
    attempt_ = 0;
    Cut(bound_.own());
  }

  void BeginMicroBatch(int64_t micro) {
    micro_ = micro;
    begin_ = std::min(micro * size_, share_);
    end_ = std::min(begin_ + size_, share_);
    core_.step().SetMicroBatch({.local = end_ - begin_,
                                .step_total = ready_samples_,
                                .last = is_last(),
                                .scale = 1,
                                .initial_batch_size = options_.batch_size,
                                .attempt = attempt_});
    core_.loop().BeginMicroBatch();
  }

  bool is_last() const { return micro_ + 1 == micro_batches_; }

  void NextMicroBatch() {
    core_.loop().FinishMicroBatch();
    BeginMicroBatch(micro_ + 1);
  }

  void MarkRead() { core_.loop().MarkRead(); }

  void FinishStep() {
    in_step_ = false;
    for (const auto& [shard, count] : step_) {
      table_.shards[shard].consumed += count;
    }
    MarkDone();
    core_.replay().loader(name_).index += ready_samples_;
    elastic::StepSummary summary;
    summary.samples = ready_samples_;
    summary.batch_size = options_.batch_size;
    summary.init_batch_size = options_.batch_size;
    summary.atomic_batch_size = size_;
    summary.micro_batches = micro_batches_;
    summary.typical = ready_samples_ == options_.batch_size && attempt_ == 0;
    summary.limits.max_local = bound_.of_all();
    summary.limits.accumulation = bound_.of_all() > 0;
    const auto begun = num_shards_ - static_cast<int64_t>(free_.size());
    const int64_t in_progress = job_.num_replicas() * at_once_;
    summary.loop_fraction =
        static_cast<double>(std::max<int64_t>(begun - in_progress, 0)) / static_cast<double>(num_shards_);
    core_.loop().FinishStep(summary);
  }

  void SetLength(int64_t shard, int64_t samples) {
    lengths_[shard] = samples;
    MarkDone();
  }

  bool Retry(const std::exception& error) {
    const int64_t failed = std::max<int64_t>(end_ - begin_, 1);
    if (!in_step_ || core_.step().exchanging() || failed <= 1 || !IsOutOfMemory(error)) return false;
    bound_.Halve(failed);
    ++attempt_;
    Cut(bound_.own());
    return true;
  }

  bool IsLast() {
    if (!in_step_ || !is_last() || !free_.empty()) return false;
    if (!is_last_) is_last_ = IsOver(core_.team().SumOf(next_));
    return *is_last_;
  }

  int64_t batch_size() const { return in_step_ ? ready_samples_ : options_.batch_size; }
  int64_t local_batch_size() const { return in_step_ ? size_ : SizeOf(Share(), MicroBatchesOf(Share())); }
  int64_t micro_batches() const { return in_step_ ? micro_batches_ : MicroBatchesOf(Share()); }
  int64_t micro_batch() const { return micro_; }
  int64_t position() const { return core_.replay().loader(name_).index; }

  void ToTensorBoard(TensorBoardWriter& writer, int64_t step, const std::string& prefix) const {
    writer.AddScalar(prefix + "Total_Batch_Size", static_cast<double>(batch_size()), step);
    writer.AddScalar(prefix + "Local_Batch_Size", static_cast<double>(local_batch_size()), step);
    writer.AddScalar(prefix + "Accumulation_Steps", static_cast<double>(micro_batches() - 1), step);
  }

  bool looping() const { return looping_; }
  bool in_step() const { return in_step_; }
  int64_t ready_samples() const { return ready_samples_; }
  bool is_over() const { return IsOver(ready_samples_); }
  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }
  std::vector<Lease> TakeLeases() { return std::exchange(leases_, {}); }

 private:
  void MarkDone() {
    for (const auto& [shard, length] : lengths_) {
      if (table_.shards[shard].consumed >= length) table_.shards[shard].done = true;
    }
  }

  void GiveShard(int rank) {
    if (free_.empty()) return;
    const int64_t shard = free_.front();
    free_.erase(free_.begin());
    table_.shards[shard].owner = rank;
    if (rank != job_.rank()) return;
    leases_.push_back({shard, table_.shards[shard].consumed});
    ++leased_;
  }

  // Shards that this replica should get: as many as it can read beside those that have not ended. When few are left,
  // which others may need more, only if it has none.
  int64_t Wanted() const {
    const int64_t open = leased_ - static_cast<int64_t>(lengths_.size());
    const int64_t fair = static_cast<int64_t>(free_.size()) / job_.num_replicas();
    return std::min(at_once_ - open, std::max<int64_t>(fair, open == 0 ? 1 : 0));
  }

  void GiveShards() {
    std::vector<int64_t> wanted;
    for (const std::string& text : core_.team().Gather(absl::StrCat(Wanted()))) {
      wanted.push_back(nlohmann::json::parse(text));
    }
    Give(wanted);
  }

  // To each replica in turn, as long as there are some.
  void Give(const std::vector<int64_t>& wanted) {
    for (int64_t given = 0; given < at_once_; ++given) {
      for (size_t rank = 0; rank < wanted.size(); ++rank) {
        if (wanted[rank] > given) GiveShard(static_cast<int>(rank));
      }
    }
  }

  // Whether a step of so many samples is none.
  bool IsOver(int64_t samples) const {
    return samples == 0 || (options_.drop_last && samples < options_.batch_size);
  }

  void Cut(int64_t local) {
    // How many micro-batches others have is no matter: only the last one is exchanged.
    micro_batches_ = local == 0 ? 1 : std::max<int64_t>(CeilDiv(share_, local), 1);
    size_ = SizeOf(share_, micro_batches_);
    BeginMicroBatch(0);
  }

  int64_t MicroBatchesOf(int64_t share) const {
    const int64_t local = bound_.of_all();
    return local == 0 ? 1 : std::max<int64_t>(CeilDiv(share, local), 1);
  }
  static int64_t SizeOf(int64_t share, int64_t micro_batches) {
    return std::max<int64_t>(CeilDiv(share, micro_batches), 1);
  }

  Job& job_;
  JobCore& core_;
  const int64_t num_shards_;
  const int64_t at_once_;
  const StreamLoaderOptions options_;
  const std::string name_;
  elastic::LocalBound bound_;
  ShardTable table_;
  // Shards that nobody has read to the end and nobody reads, in the order in which they are given out.
  std::vector<int64_t> free_;
  // This replica's shards, and of those whose end was read their lengths.
  int64_t leased_ = 0;
  std::map<int64_t, int64_t> lengths_;
  // Samples of this replica's step by shard, and in all.
  std::map<int64_t, int64_t> step_;
  int64_t share_ = 0;
  // Whether the size of the next step was exchanged.
  bool known_ = false;
  // Samples that this replica holds for the next step; whether there is none, if that was asked.
  int64_t next_ = 0;
  std::optional<bool> is_last_;
  int64_t size_ = 1;
  int64_t micro_ = 0;
  int64_t micro_batches_ = 1;
  int attempt_ = 0;
  bool looping_ = false;
  bool in_step_ = false;
  bool dealt_ = false;
  int64_t ready_samples_ = 0;
  int64_t begin_ = 0;
  int64_t end_ = 0;
  // Given to this replica and not taken yet.
  std::vector<Lease> leases_;
};

StreamLoop::StreamLoop(Job& job, int64_t shards, const StreamLoaderOptions& options, int64_t at_once)
    : impl_(std::make_unique<Impl>(job, shards, options, at_once)) {}
StreamLoop::~StreamLoop() = default;

bool StreamLoop::BeginLoop() { return impl_->BeginLoop(); }
void StreamLoop::EndLoop() { impl_->EndLoop(); }
bool StreamLoop::looping() const { return impl_->looping(); }
bool StreamLoop::in_step() const { return impl_->in_step(); }
int64_t StreamLoop::Share() const { return impl_->Share(); }
bool StreamLoop::TakeDealt() { return impl_->TakeDealt(); }
std::vector<StreamLoop::Lease> StreamLoop::TakeLeases() { return impl_->TakeLeases(); }
bool StreamLoop::IsReady(int64_t ready) { return impl_->IsReady(ready); }
int64_t StreamLoop::ready_samples() const { return impl_->ready_samples(); }
bool StreamLoop::is_over() const { return impl_->is_over(); }
void StreamLoop::BeginStep(const std::map<int64_t, int64_t>& samples, int64_t next) {
  impl_->BeginStep(samples, next);
}
void StreamLoop::SetLength(int64_t shard, int64_t samples) { impl_->SetLength(shard, samples); }
int64_t StreamLoop::begin() const { return impl_->begin(); }
int64_t StreamLoop::end() const { return impl_->end(); }
bool StreamLoop::is_optimizer_step() const { return impl_->is_last(); }
void StreamLoop::NextMicroBatch() { impl_->NextMicroBatch(); }
void StreamLoop::MarkRead() { impl_->MarkRead(); }
void StreamLoop::FinishStep() { impl_->FinishStep(); }
bool StreamLoop::RetryAfterOutOfMemory(const std::exception& error) { return impl_->Retry(error); }
bool StreamLoop::IsLast() { return impl_->IsLast(); }
int64_t StreamLoop::batch_size() const { return impl_->batch_size(); }
int64_t StreamLoop::local_batch_size() const { return impl_->local_batch_size(); }
int64_t StreamLoop::micro_batches() const { return impl_->micro_batches(); }
int64_t StreamLoop::micro_batch() const { return impl_->micro_batch(); }
int64_t StreamLoop::position() const { return impl_->position(); }

void StreamLoop::ToTensorBoard(TensorBoardWriter& writer, int64_t step, const std::string& prefix) const {
  impl_->ToTensorBoard(writer, step, prefix);
}

}  // namespace adaptdl
