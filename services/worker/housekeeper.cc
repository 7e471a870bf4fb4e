#include "services/worker/housekeeper.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "libs/base/clock.h"

namespace adaptdl::worker {

Housekeeper::Housekeeper(Options options, ReplicaManager* replicas, WorkerMetrics* metrics,
                         std::function<bool()> connected,
                         std::function<void(const std::string& job_uid)> deleted, std::function<void()> watch)
    : options_(options),
      replicas_(replicas),
      metrics_(metrics),
      connected_(std::move(connected)),
      deleted_(std::move(deleted)),
      watch_(std::move(watch)),
      thread_([this] { Run(); }) {}

Housekeeper::~Housekeeper() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

void Housekeeper::DeleteJob(const v1::DeleteJobFiles& job) {
  MutexLock lock(&mutex_);
  // Asked again before its turn came.
  if (std::any_of(deletions_.begin(), deletions_.end(),
                  [&](const auto& other) { return other.job_uid() == job.job_uid(); })) {
    return;
  }
  deletions_.push_back(job);
  changed_.SignalAll();
}

void Housekeeper::Run() {
  absl::Time next_prune = absl::InfinitePast();
  while (true) {
    std::optional<v1::DeleteJobFiles> deletion;
    {
      MutexLock lock(&mutex_);
      if (!stopping_ && deletions_.empty()) changed_.WaitFor(&mutex_, options_.metrics_period);
      if (stopping_) return;
      if (!deletions_.empty()) {
        deletion = std::move(deletions_.front());
        deletions_.pop_front();
      }
    }
    if (deletion && replicas_->DeleteJob(*deletion).ok()) deleted_(deletion->job_uid());
    watch_();
    metrics_->Update(replicas_->Stats(), connected_());
    if (SteadyNow() < next_prune) continue;
    metrics_->SetLogBytes(replicas_->PruneLogs(options_.max_ended_replicas, options_.max_log_bytes,
                                               options_.max_job_log_bytes));
    replicas_->TrimPython();
    replicas_->TrimCode();
    next_prune = SteadyNow() + options_.prune_period;
  }
}

}  // namespace adaptdl::worker
