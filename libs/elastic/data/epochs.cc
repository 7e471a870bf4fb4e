#include "adaptdl/epochs.h"

#include <optional>

#include "libs/elastic/job/job_core.h"

namespace adaptdl {

EpochRange::Iterator::Iterator(Job* job, int epochs) : job_(job), epochs_(epochs) {
  elastic::JobCore& core = job_->core();
  if (core.replay().current_epoch() >= 0) core.ending().FailUsage("epoch loops cannot be nested");
  core.progress().SetTotalEpochs(epochs_);
  if (core.replay().finished_epochs() >= epochs_) {
    core.replay().PassEpochs();
    core.loop().OnTrainingDone();
    return;
  }
  core.replay().EnterEpoch();
  running_ = true;
}

EpochRange::Iterator::~Iterator() {
  if (running_) job_->core().replay().FinishEpoch();
}

int EpochRange::Iterator::operator*() const { return job_->core().replay().finished_epochs(); }

EpochRange::Iterator& EpochRange::Iterator::operator++() {
  elastic::JobCore& core = job_->core();
  core.replay().FinishEpoch();
  running_ = false;
  core.loop().OnEpochBoundary();
  core.loop().StepBoundary(/*may_rescale=*/true);
  if (core.replay().finished_epochs() < epochs_) {
    core.replay().EnterEpoch();
    running_ = true;
  } else {
    core.loop().OnTrainingDone();
  }
  return *this;
}

std::optional<int> CurrentEpoch(Job& job) {
  const int epoch = job.core().replay().current_epoch();
  if (epoch < 0) return std::nullopt;
  return epoch;
}

}  // namespace adaptdl
