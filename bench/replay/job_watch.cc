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

void JobWatch::Take(const v1::Job& job) {
  const absl::Time now = absl::Now();
  MutexLock lock(&mutex_);
  Seen& seen = seen_[job.name()];
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
