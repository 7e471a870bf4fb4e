#include "adaptdl/data_loader.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "adaptdl/tensorboard.h"
#include "libs/base/ceil_div.h"
#include "libs/elastic/data/local_bound.h"
#include "libs/elastic/job/job_core.h"
#include "libs/goodput/optimize.h"

namespace adaptdl {
namespace {

// Progress is summed up from many parts: this much may be missing for rounding.
constexpr double kProgressTolerance = 1e-6;

using elastic::TighterBound;

}  // namespace

AdaptiveDataLoader::AdaptiveDataLoader(Job& job, int64_t data_set_size, const DataLoaderOptions& options)
    : job_(job),
      options_(options),
      name_(job.core().replay().NewLoaderName()),
      sampler_(data_set_size, options.shuffle, options.seed),
      bound_(std::make_unique<elastic::LocalBound>(&job.core(), job.core().replay().LastLoaderKind(),
                                                   options.max_local_batch_size)) {
  elastic::JobCore& core = job_.core();
  if (data_set_size < 1)
    core.ending().FailUsage(absl::StrCat("the data set has ", data_set_size, " samples; give some"));
  if (options.batch_size < 1) {
    core.ending().FailUsage(absl::StrCat("batch_size is ", options.batch_size, "; give at least 1"));
  }
  if (options.base_batch_size < 0) {
    core.ending().FailUsage(absl::StrCat("base_batch_size is ", options.base_batch_size,
                                         "; give what the learning rate is meant for, or 0 for batch_size"));
  }
  if (!(options.band >= 0 && options.band < 1)) {
    core.ending().FailUsage(
        absl::StrCat("band is ", options.band, "; give a part of the batch size, in [0, 1)"));
  }
  if (options.max_local_batch_size < 0) {
    core.ending().FailUsage(
        absl::StrCat("max_local_batch_size is ", options.max_local_batch_size, "; give at least 0"));
  }
  if (options.drop_last && data_set_size < options.batch_size) {
    core.ending().FailUsage(absl::StrCat("drop_last leaves nothing of a data set of ", data_set_size,
                                         " samples with batch_size ", options.batch_size));
  }
  if (core.replay().in_loop())
    core.ending().FailUsage("a data loader cannot be made within a data loader's loop");
}

AdaptiveDataLoader::~AdaptiveDataLoader() {
  EndLoop();
  job_.core().batches().StopAdapting(this);
}

void AdaptiveDataLoader::AutoscaleBatchSize(int64_t max_batch_size, const LocalBatchSizes& local,
                                            bool accumulation) {
  elastic::JobCore& core = job_.core();
  const goodput::BatchLimits limits = {.max_batch_size = max_batch_size,
                                       .min_local = local.min,
                                       .max_local = local.max,
                                       .accumulation = accumulation};
  if (looping_) core.ending().FailUsage("AutoscaleBatchSize() cannot be called within the loader's loop");
  if (max_batch_size < 1) {
    core.ending().FailUsage(absl::StrCat("max_batch_size is ", max_batch_size,
                                         "; give at least batch_size = ", options_.batch_size));
  }
  if (options_.batch_size < base_batch_size() || max_batch_size < options_.batch_size) {
    core.ending().FailUsage(absl::StrCat("batch_size is ", options_.batch_size,
                                         "; with AutoscaleBatchSize() it must be between base_batch_size = ",
                                         base_batch_size(), " and max_batch_size = ", max_batch_size));
  }
  if (const absl::Status status = goodput::Validate(limits, base_batch_size()); !status.ok()) {
    core.ending().FailUsage(std::string(status.message()));
  }
  if (!core.batches().StartAdapting(this)) {
    core.ending().FailUsage("two data loaders adapt their batch size; only the one that is trained with may");
  }
  max_batch_size_ = max_batch_size;
  local_ = local;
  accumulation_ = accumulation;
}

bool AdaptiveDataLoader::BeginLoop() {
  elastic::JobCore& core = job_.core();
  if (core.replay().in_loop()) core.ending().FailUsage("loops over data loaders cannot be nested");
  if (!core.replay().BeginLoop(name_)) return false;
  looping_ = true;
  in_step_ = false;
  core.loop().SetCurrentLoader(this);
  elastic::LoaderRecord& record = core.replay().loader(name_);
  // What the loop before did too much counts for this one.
  if (record.begin < 0) {
    record.begin = core.progress().scale_invariant_steps() - (adaptive() ? core.progress().surplus() : 0);
  }
  pass_steps_ = 0;
  pass_begin_ = core.progress().scale_invariant_steps();
  sampler_.SetPass(std::max(core.replay().current_epoch(), 0), record.pass);
  return true;
}

bool AdaptiveDataLoader::Next() {
  if (!looping_) return false;
  if (in_step_ && job_.core().step().is_void()) {
    // The same samples, over the replicas that there are now.
    in_step_ = false;
    job_.core().loop().RestartStep();
  }
  if (in_step_ && is_accumulation_step()) {
    job_.core().loop().FinishMicroBatch();
    BeginMicroBatch(micro_ + 1);
    return true;
  }
  if (in_step_) FinishStep();
  if (!BeginStep()) {
    EndLoop();
    return false;
  }
  return true;
}

bool AdaptiveDataLoader::BeginStep() {
  const bool progress_made = LoopProgress() >= LoopLength() - kProgressTolerance;
  if (adaptive() && progress_made) return false;
  batch_ = Chosen();
  step_ = StepAt(position());
  if (step_.count == 0) {
    if (!adaptive()) return false;
    FinishPass();
    step_ = StepAt(position());
  }
  attempt_ = 0;
  in_step_ = true;
  BeginMicroBatch(0);
  return true;
}

void AdaptiveDataLoader::BeginMicroBatch(int64_t micro) {
  elastic::JobCore& core = job_.core();
  micro_ = micro;
  indices_ = ShareOf(step_, micro_, &weight_);
  core.step().SetMicroBatch(
      {.local = weight_,
       .step_total = step_.count,
       .last = is_optimizer_step(),
       .scale = static_cast<double>(batch_.total) / static_cast<double>(base_batch_size()),
       .initial_batch_size = base_batch_size(),
       .attempt = attempt_});
  core.loop().BeginMicroBatch();
}

void AdaptiveDataLoader::MarkRead() { job_.core().loop().MarkRead(); }

void AdaptiveDataLoader::FinishStep() {
  elastic::JobCore& core = job_.core();
  in_step_ = false;
  ++pass_steps_;
  core.replay().loader(name_).index += step_.count;
  elastic::StepSummary summary;
  summary.samples = step_.count;
  summary.batch_size = batch_.total;
  summary.base_batch_size = base_batch_size();
  // To the scheduler a batch size that stays is the initial one, whatever its learning rate was meant for.
  summary.init_batch_size = adaptive() ? base_batch_size() : options_.batch_size;
  summary.atomic_batch_size = step_.size;
  summary.micro_batches = step_.micro_batches;
  summary.typical = step_.count == batch_.total && attempt_ == 0;
  summary.limits = {.max_batch_size = max_batch_size_,
                    .min_local = local_.min,
                    .max_local = TighterBound(local_.max, bound_->of_all())};
  // A batch size that stays is accumulated where it does not fit.
  summary.limits.accumulation = adaptive() ? accumulation_ : summary.limits.max_local > 0;
  const elastic::ChosenBatch& chosen = core.batches().chosen();
  summary.chosen = chosen.micro_batches == 0 || chosen.replicas == job_.num_replicas();
  summary.loop_fraction = adaptive() ? LoopProgress() / LoopLength()
                                     : static_cast<double>(position()) / static_cast<double>(sampler_.size());
  summary.loop_steps = LoopLength();
  core.loop().FinishStep(summary);
}

void AdaptiveDataLoader::FinishPass() {
  elastic::JobCore& core = job_.core();
  if (pass_steps_ > 0 && core.progress().scale_invariant_steps() <= pass_begin_) {
    core.ending().FailUsage("a loop with AutoscaleBatchSize() takes no optimiser steps, and would never end");
  }
  pass_steps_ = 0;
  pass_begin_ = core.progress().scale_invariant_steps();
  elastic::LoaderRecord& record = core.replay().loader(name_);
  record.index = 0;
  ++record.pass;
  sampler_.SetPass(std::max(core.replay().current_epoch(), 0), record.pass);
}

void AdaptiveDataLoader::EndLoop() {
  if (!looping_) return;
  elastic::JobCore& core = job_.core();
  if (adaptive()) core.progress().SetSurplus(std::max(0.0, LoopProgress() - LoopLength()));
  looping_ = false;
  in_step_ = false;
  core.step().SetMicroBatch({});
  core.loop().SetCurrentLoader(nullptr);
  core.loop().EndSteps();
  core.replay().FinishLoop(name_);
}

double AdaptiveDataLoader::LoopLength() const {
  if (adaptive()) return static_cast<double>(sampler_.size()) / static_cast<double>(base_batch_size());
  // What steps of another size are worth is known of those that were taken.
  if (base_batch_size() != options_.batch_size && position() > 0) {
    return LoopProgress() * static_cast<double>(sampler_.size()) / static_cast<double>(position());
  }
  return static_cast<double>(options_.drop_last ? sampler_.size() / options_.batch_size
                                                : CeilDiv(sampler_.size(), options_.batch_size));
}

double AdaptiveDataLoader::LoopProgress() const {
  elastic::JobCore& core = job_.core();
  return core.progress().scale_invariant_steps() - core.replay().loader(name_).begin;
}

std::vector<std::vector<int64_t>> AdaptiveDataLoader::PeekNext(int count) const {
  std::vector<std::vector<int64_t>> ahead;
  if (!looping_) return ahead;
  Step step = step_;
  int64_t micro = micro_;
  if (!in_step_) {
    step = StepAt(position());
    micro = -1;
  }
  while (static_cast<int>(ahead.size()) < count) {
    if (++micro >= step.micro_batches) {
      step = StepAt(step.begin + step.count);
      micro = 0;
    }
    if (step.count == 0) break;
    int64_t weight = 0;
    ahead.push_back(ShareOf(step, micro, &weight));
  }
  return ahead;
}

int64_t AdaptiveDataLoader::batch_size() const { return in_step_ ? step_.count : Chosen().total; }

int64_t AdaptiveDataLoader::local_batch_size() const {
  if (in_step_) return step_.size;
  const Batch batch = Chosen();
  return Cut(0, batch.total, batch.local).size;
}

int64_t AdaptiveDataLoader::micro_batches() const {
  if (in_step_) return step_.micro_batches;
  const Batch batch = Chosen();
  return Cut(0, batch.total, batch.local).micro_batches;
}

int64_t AdaptiveDataLoader::position() const { return job_.core().replay().loader(name_).index; }
int64_t AdaptiveDataLoader::pass() const { return job_.core().replay().loader(name_).pass; }

AdaptiveDataLoader::Batch AdaptiveDataLoader::Chosen() const {
  if (adaptive()) return ChosenByGoodput();
  const int64_t local = bound_->of_all();
  return {TotalWithinBand(local), local};
}

AdaptiveDataLoader::Batch AdaptiveDataLoader::ChosenByGoodput() const {
  elastic::JobCore& core = job_.core();
  const int64_t replicas = job_.num_replicas();
  const int64_t most = TighterBound(local_.max, bound_->of_all());
  const elastic::ChosenBatch& chosen = core.batches().chosen();
  if (chosen.micro_batches == 0) return {options_.batch_size, most};
  int64_t total = chosen.atomic_batch_size * chosen.micro_batches * chosen.replicas;
  const bool for_these = chosen.replicas == replicas;
  // Chosen for others: near it, until these have decided.
  if (!for_these) {
    if (most > 0 && !accumulation_) total = std::min(total, replicas * most);
    total = std::max(total, replicas * local_.min);
  }
  total = std::clamp(total, base_batch_size(), max_batch_size_);
  return {total, for_these ? TighterBound(chosen.atomic_batch_size, most) : most};
}

// The total next to the one asked for that all replicas have equal parts of; the one asked for if none is
// within the band.
int64_t AdaptiveDataLoader::TotalWithinBand(int64_t local) const {
  const auto width = static_cast<int64_t>(options_.band * static_cast<double>(options_.batch_size));
  const int64_t replicas = job_.num_replicas();
  for (int64_t difference = 0; difference <= width; ++difference) {
    for (const int64_t total : {options_.batch_size - difference, options_.batch_size + difference}) {
      if (total % replicas != 0 || total == 0) continue;
      const int64_t share = total / replicas;
      if (share % (local == 0 ? 1 : CeilDiv(share, local)) == 0) return total;
    }
  }
  return options_.batch_size;
}

AdaptiveDataLoader::Step AdaptiveDataLoader::StepAt(int64_t begin) const {
  const Batch batch = in_step_ ? batch_ : Chosen();
  const int64_t left = sampler_.size() - begin;
  // A batch that was chosen larger than the data set is not left out: nothing would be read at all.
  if (options_.drop_last && left < batch.total && begin > 0) return {begin, 0};
  return Cut(begin, std::min(batch.total, left), TighterBound(batch.local, bound_->own()));
}

AdaptiveDataLoader::Step AdaptiveDataLoader::Cut(int64_t begin, int64_t count, int64_t local) const {
  const int64_t largest_share = CeilDiv(count, job_.num_replicas());
  const int64_t micro_batches = local == 0 ? 1 : std::max<int64_t>(CeilDiv(largest_share, local), 1);
  return {begin, count, micro_batches, std::max<int64_t>(CeilDiv(largest_share, micro_batches), 1)};
}

std::vector<int64_t> AdaptiveDataLoader::ShareOf(const Step& step, int64_t micro, int64_t* weight) const {
  // The micro-batch's part of this replica's stride.
  const int64_t stride = job_.num_replicas();
  const int64_t first = step.begin + micro * step.size * stride;
  const int64_t end = std::min(step.begin + step.count, first + step.size * stride);
  std::vector<int64_t> share;
  if (first < end) {
    share = sampler_.Share(first, end - first, job_.rank(), job_.num_replicas());
  }
  *weight = static_cast<int64_t>(share.size());
  if (share.empty()) share.push_back(sampler_.At(step.begin));
  return share;
}

void AdaptiveDataLoader::ToTensorBoard(TensorBoardWriter& writer, int64_t step,
                                       const std::string& prefix) const {
  writer.AddScalar(prefix + "Total_Batch_Size", static_cast<double>(batch_size()), step);
  writer.AddScalar(prefix + "Local_Batch_Size", static_cast<double>(local_batch_size()), step);
  writer.AddScalar(prefix + "Accumulation_Steps", static_cast<double>(micro_batches() - 1), step);
}

bool AdaptiveDataLoader::RetryAfterOutOfMemory(const std::exception& error) {
  elastic::JobCore& core = job_.core();
  const auto failed = static_cast<int64_t>(indices_.size());
  if (!in_step_ || core.step().exchanging() || failed <= 1 || !IsOutOfMemory(error)) return false;
  bound_->Halve(failed);
  // The same samples of the same step. How many micro-batches the other replicas cut theirs into is no
  // matter: only the last one is exchanged.
  step_ = Cut(step_.begin, step_.count, TighterBound(batch_.local, bound_->own()));
  ++attempt_;
  BeginMicroBatch(0);
  return true;
}

AdaptiveDataLoader* CurrentDataLoader(Job& job) { return job.core().loop().current_loader(); }

bool IsOutOfMemory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  // LibTorch's own types are not known here; their texts have been stable: of the CUDA allocator, of CUDA
  // itself and cuBLAS, and of the CPU allocator.
  for (const char* text :
       {"out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "can't allocate memory", "not enough memory"}) {
    if (absl::StrContains(error.what(), text)) return true;
  }
  return false;
}

}  // namespace adaptdl
