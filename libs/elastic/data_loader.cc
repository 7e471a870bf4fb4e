#include "adaptdl/data_loader.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/elastic/job_core.h"

namespace adaptdl {

AdaptiveDataLoader::AdaptiveDataLoader(Job& job, int64_t data_set_size, const DataLoaderOptions& options)
    : job_(job),
      options_(options),
      name_(job.core().replay().NewLoaderName()),
      sampler_(data_set_size, options.shuffle, options.seed) {
  elastic::JobCore& core = job_.core();
  if (data_set_size < 1)
    core.FailUsage(absl::StrCat("the data set has ", data_set_size, " samples; give some"));
  if (options.batch_size < 1) {
    core.FailUsage(absl::StrCat("batch_size is ", options.batch_size, "; give at least 1"));
  }
  if (core.replay().in_loop()) core.FailUsage("a data loader cannot be made within a data loader's loop");
}

AdaptiveDataLoader::~AdaptiveDataLoader() { EndLoop(); }

bool AdaptiveDataLoader::BeginLoop() {
  elastic::JobCore& core = job_.core();
  if (core.replay().in_loop()) core.FailUsage("loops over data loaders cannot be nested");
  if (!core.replay().BeginLoop(name_)) return false;
  looping_ = true;
  in_step_ = false;
  sampler_.SetPass(std::max(core.replay().current_epoch(), 0), /*pass=*/0);
  return true;
}

bool AdaptiveDataLoader::Next() {
  if (!looping_) return false;
  if (in_step_) FinishStep();
  elastic::JobCore& core = job_.core();
  if (position() >= sampler_.size()) {
    EndLoop();
    return false;
  }
  step_ = StepAt(position());
  indices_ = ShareOf(step_, &weight_);
  core.SetMicroBatch({.local = weight_, .step_total = step_.count});
  core.BeginStep();
  in_step_ = true;
  return true;
}

void AdaptiveDataLoader::FinishStep() {
  elastic::JobCore& core = job_.core();
  in_step_ = false;
  core.replay().loader(name_).index += step_.count;
  core.FinishStep(step_.count, options_.batch_size, local_batch_size(), position(), sampler_.size());
}

void AdaptiveDataLoader::EndLoop() {
  if (!looping_) return;
  looping_ = false;
  in_step_ = false;
  job_.core().SetMicroBatch({});
  job_.core().EndSteps();
  job_.core().replay().FinishLoop(name_);
}

std::vector<int64_t> AdaptiveDataLoader::PeekNext() {
  const int64_t next = position() + (in_step_ ? step_.count : 0);
  if (!looping_ || next >= sampler_.size()) return {};
  int64_t weight = 0;
  return ShareOf(StepAt(next), &weight);
}

int64_t AdaptiveDataLoader::local_batch_size() const {
  const int64_t replicas = job_.num_replicas();
  return (options_.batch_size + replicas - 1) / replicas;
}

int64_t AdaptiveDataLoader::position() const { return job_.core().replay().loader(name_).index; }

AdaptiveDataLoader::Step AdaptiveDataLoader::StepAt(int64_t begin) const {
  return {begin, std::min(options_.batch_size, sampler_.size() - begin)};
}

std::vector<int64_t> AdaptiveDataLoader::ShareOf(const Step& step, int64_t* weight) const {
  std::vector<int64_t> share = sampler_.Share(step.begin, step.count, job_.rank(), job_.num_replicas());
  *weight = static_cast<int64_t>(share.size());
  if (share.empty()) share.push_back(sampler_.At(step.begin));
  return share;
}

}  // namespace adaptdl
