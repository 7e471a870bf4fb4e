#include "libs/elastic/job/checkpoint_coordinator.h"

#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/say.h"
#include "nlohmann/json.hpp"

namespace adaptdl::elastic {

CheckpointCoordinator::CheckpointCoordinator(Options options, const ProgressTracker* progress,
                                             TrainingWatch* watch, ControlPlane* control)
    : options_(std::move(options)), progress_(progress), watch_(watch), control_(control) {}

void CheckpointCoordinator::SetMembership(const GroupMembership& membership) {
  leads_ = membership.rank == 0;
  if (!leads_ || options_.folder.empty()) return;
  if (writer_) {
    writer_->SetGroup(membership.group);
    return;
  }
  writer_ = std::make_unique<CheckpointWriter>(
      CheckpointStore::Options{.folder = options_.folder,
                               .group = membership.group,
                               .keep = options_.keep,
                               .before_step = options_.before_step},
      [this](int64_t step, const absl::StatusOr<int64_t>& version) { OnWritten(step, version); });
  MutexLock lock(&mutex_);
  cancellable_ = writer_.get();
  if (cancelled_) cancellable_->Cancel();
}

absl::StatusOr<StateMap> CheckpointCoordinator::LoadNewest() {
  if (!leads_) return StateMap();
  if (!writer_) return LoadStart();
  absl::StatusOr<Checkpoint> newest = writer_->LoadNewest();
  if (absl::IsNotFound(newest.status())) return LoadStart();
  if (!newest.ok()) return newest.status();
  Say(Severity::kInfo, absl::StrCat("restored checkpoint-", newest->version));
  return std::move(newest->states);
}

absl::StatusOr<StateMap> CheckpointCoordinator::LoadStart() const {
  if (options_.start_folder.empty()) return StateMap();
  absl::StatusOr<Checkpoint> newest = CheckpointStore({.folder = options_.start_folder}).LoadNewest();
  if (absl::IsNotFound(newest.status())) {
    return absl::NotFoundError(absl::StrCat("ADAPTDL_START_PATH=\"", options_.start_folder,
                                            "\": there is no checkpoint to start from"));
  }
  if (!newest.ok()) return newest.status();
  Say(Severity::kInfo, absl::StrCat("starts from checkpoint-", newest->version, " of another job"));
  return std::move(newest->states);
}

void CheckpointCoordinator::Request(const std::string& reason) {
  MutexLock lock(&mutex_);
  requested_ = true;
  Say(Severity::kInfo, absl::StrCat("asked for a checkpoint (", reason, ")"));
}

void CheckpointCoordinator::Settle() {
  agreed_ = false;
  MutexLock lock(&mutex_);
  requested_ = false;
}

bool CheckpointCoordinator::Save(const std::function<void(StateMap* states)>& collect) {
  saved_steps_ = progress_->optimizer_steps();
  bool submitted = false;
  if (writer_ && leads_) {
    watch_->BeginStorage();
    StateMap states = writer_->TakeBuffers();
    watch_->EndStorage();
    try {
      collect(&states);
      writer_->Submit(std::move(states), saved_steps_);
      submitted = true;
    } catch (const std::exception& error) {
      OnWritten(saved_steps_, absl::InternalError(error.what()));
    }
  }
  last_ = options_.seconds();
  return submitted;
}

absl::Status CheckpointCoordinator::AwaitWritten(absl::Duration timeout) {
  if (!writer_) return absl::OkStatus();
  watch_->BeginStorage();
  const absl::Status status = writer_->Await(timeout);
  watch_->EndStorage();
  return status;
}

void CheckpointCoordinator::Cancel() {
  MutexLock lock(&mutex_);
  cancelled_ = true;
  if (cancellable_ != nullptr) cancellable_->Cancel();
}

void CheckpointCoordinator::Close() {
  if (writer_) (void)writer_->Await(absl::InfiniteDuration());
  {
    MutexLock lock(&mutex_);
    cancellable_ = nullptr;
  }
  writer_.reset();
}

void CheckpointCoordinator::SaveTo(nlohmann::json* job) const { (*job)["saved_steps"] = saved_steps_; }

void CheckpointCoordinator::LoadFrom(const nlohmann::json& job) {
  saved_steps_ = job.value("saved_steps", progress_->optimizer_steps());
}

void CheckpointCoordinator::Offer(bool in_step, absl::Span<double> signals) {
  MutexLock lock(&mutex_);
  signals[0] = requested_ || PeriodIsOver(in_step) ? 1 : 0;
}

void CheckpointCoordinator::OnAgreed(absl::Span<const double> sums, int /*members*/) {
  agreed_ = agreed_ || sums[0] > 0;
}

bool CheckpointCoordinator::PeriodIsOver(bool in_step) const {
  // Storage that is slower than the period gets the checkpoints that it can take.
  if (!leads_ || !writer_ || writer_->busy()) return false;
  const int64_t steps = progress_->optimizer_steps() + (in_step ? 1 : 0) - saved_steps_;
  if (options_.period_steps > 0) return steps >= options_.period_steps;
  return steps > 0 && options_.seconds() - last_ >= absl::ToDoubleSeconds(options_.period);
}

// Also called by the writer's thread.
void CheckpointCoordinator::OnWritten(int64_t step, const absl::StatusOr<int64_t>& version) {
  if (version.ok()) {
    Say(Severity::kInfo, absl::StrCat("wrote checkpoint-", *version, " after step ", step));
  } else if (absl::IsAborted(version.status())) {
    options_.on_superseded(std::string(version.status().message()));
    return;
  } else {
    Say(Severity::kWarning,
        absl::StrCat("no checkpoint was written, the one before stays: ", version.status().ToString()));
  }
  control_->ReportCheckpoint(step, version.status());
}

}  // namespace adaptdl::elastic
