#include "bench/replay/job_watch.h"

#include <algorithm>
#include <memory>

namespace adaptdl::replay {
namespace {

bool HasEnded(const v1::Job& job) {
  const v1::JobPhase phase = job.status().phase();
  return phase == v1::JOB_PHASE_SUCCEEDED || phase == v1::JOB_PHASE_FAILED ||
         phase == v1::JOB_PHASE_CANCELLED;
}

// Replicas by node.
std::map<std::string, int> Count(const v1::JobStatus& status) {
  std::map<std::string, int> replicas;
  for (const std::string& node : status.allocation()) ++replicas[node];
  return replicas;
}

bool HasMoreSomewhere(const v1::JobStatus& now, const v1::JobStatus& before) {
  const std::map<std::string, int> old = Count(before);
  const std::map<std::string, int> all = Count(now);
  return std::any_of(all.begin(), all.end(), [&](const auto& entry) {
    const auto found = old.find(entry.first);
    return found == old.end() || found->second < entry.second;
  });
}

}  // namespace

JobWatch::JobWatch(v1::JobService::Stub* jobs) : jobs_(jobs), thread_([this] { Run(); }) {}

JobWatch::~JobWatch() {
  context_.TryCancel();
  thread_.join();
}

void JobWatch::Run() {
  v1::WatchJobsRequest request;
  request.set_batch(true);
  const auto reader = jobs_->WatchJobs(&context_, request);
  v1::WatchJobsResponse response;
  while (reader->Read(&response)) {
    if (response.has_job()) Take(response.job());
    for (const v1::Job& job : response.more()) Take(job);
  }
}

void JobWatch::TakeChange(const v1::Job& job, absl::Time now, Seen* seen) {
  const v1::JobStatus& before = seen->job.status();
  const v1::JobStatus& status = job.status();
  const bool runs = status.phase() == v1::JOB_PHASE_RESCALING || status.phase() == v1::JOB_PHASE_RUNNING;
  const bool is_changed = runs && status.group() > before.group();
  if (seen->changing && is_changed && HasMoreSomewhere(status, before))
    seen->newcomers.push_back(now - *seen->changing);
  if (status.phase() != v1::JOB_PHASE_RESCALING) {
    seen->changing.reset();
  } else if (!seen->changing || is_changed) {
    seen->changing = now;
  }
}

void JobWatch::Take(const v1::Job& job) {
  const absl::Time now = absl::Now();
  MutexLock lock(&mutex_);
  Seen& seen = seen_[job.name()];
  TakeChange(job, now, &seen);
  if (seen.replicas > 0) seen.replica_time += (now - seen.since) * seen.replicas;
  seen.since = now;
  seen.job = job;
  seen.replicas = HasEnded(job) ? 0 : job.status().allocation_size();
  if (seen.replicas > 0 && !seen.launched) seen.launched = now;
  if (HasEnded(job) && !seen.ended) seen.ended = now;
  changed_.SignalAll();
}

std::map<std::string, JobWatch::Seen> JobWatch::All() const {
  MutexLock lock(&mutex_);
  return seen_;
}

int JobWatch::finished() const {
  MutexLock lock(&mutex_);
  return static_cast<int>(std::count_if(seen_.begin(), seen_.end(),
                                        [](const auto& entry) { return entry.second.ended.has_value(); }));
}

bool JobWatch::Await(const std::function<bool(const std::map<std::string, Seen>&)>& condition,
                     absl::Time deadline) const {
  MutexLock lock(&mutex_);
  while (!condition(seen_)) {
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return false;
    changed_.WaitFor(&mutex_, left);
  }
  return true;
}

}  // namespace adaptdl::replay
