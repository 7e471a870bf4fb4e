#include "services/supervisor/replicas/progress_keeper.h"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

// Whether `known` is what is told. One that tells nothing is no news to a job of which nothing is known. By their bytes:
// a loss that is not a number is no other one than before.
template <typename Message>
bool Says(const std::optional<Message>& known, const Message& told) {
  const Message& before = known.has_value() ? *known : Message::default_instance();
  return before.SerializeAsString() == told.SerializeAsString();
}

void StoreProgress(Transaction* transaction, const std::string& uid, const v1::TrainingProgress& progress) {
  const JobEntry* before = transaction->FindJob(uid);
  if (before == nullptr || Says(before->record.progress, progress)) return;
  JobEntry* job = transaction->EditJob(uid);
  JobRecord& record = job->record;
  record.progress = progress;
  record.state.tells_progress = TellsProgress(record);
  record.times.estimated_completion = absl::InfinitePast();
  if (progress.fraction() < 0 || jobs::IsTerminal(record.state.phase)) return;
  const std::optional<absl::Duration> left =
      job->progress_rate.Observe(record.state.group, progress.fraction(), transaction->now());
  if (left.has_value()) record.times.estimated_completion = transaction->wall() + *left;
}

void StoreHints(Transaction* transaction, const std::string& uid, const v1::Hints& hints) {
  const JobEntry* job = transaction->FindJob(uid);
  if (job == nullptr || Says(job->record.hints, hints)) return;
  JobRecord& record = transaction->EditJob(uid)->record;
  record.hints = hints;
  record.state.tells_progress = TellsProgress(record);
  transaction->ShowToAllocator();
}

}  // namespace

void ProgressKeeper::Keep(const std::string& job_uid, const v1::Hints& hints) {
  MutexLock lock(&mutex_);
  new_hints_[job_uid] = hints;
}

void ProgressKeeper::StoreLatest(Transaction* transaction, const std::string& uid) {
  if (const auto progress = sessions_->LatestProgress(uid)) StoreProgress(transaction, uid, *progress);
}

void ProgressKeeper::Step() {
  const absl::Time now = core_->Now();
  if (now < next_) return;
  next_ = now + period_;
  const std::map<std::string, v1::TrainingProgress> progress = sessions_->TakeProgress();
  std::map<std::string, v1::Hints> hints;
  {
    MutexLock lock(&mutex_);
    hints = std::exchange(new_hints_, {});
  }
  if (observer_ && !progress.empty()) observer_(progress);
  if (progress.empty() && hints.empty()) return;
  const absl::Status status = core_->Update([&](Transaction* transaction) {
    for (const auto& [uid, value] : progress) StoreProgress(transaction, uid, value);
    for (const auto& [uid, value] : hints) StoreHints(transaction, uid, value);
    return absl::OkStatus();
  });
  if (status.ok()) return;
  // With the next flush, unless newer ones have come.
  sessions_->ReturnProgress(progress);
  MutexLock lock(&mutex_);
  new_hints_.merge(hints);
}

}  // namespace adaptdl::supervisor
