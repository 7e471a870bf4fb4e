#include "services/supervisor/kubernetes/logs/log_keeper.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/supervisor/kubernetes/logs/log_tail.h"

namespace adaptdl::supervisor {
namespace {

// A line has its time at least: more of them than this do not fit.
constexpr size_t kShortestLine = 32;

}  // namespace

LogKeeper::LogKeeper(const LogKeeperParts& parts, const LogKeeperOptions& options)
    : parts_(parts), options_(options) {
  for (int i = 0; i < options_.followers; ++i) threads_.emplace_back([this] { Run(&to_follow_, true); });
  for (int i = 0; i < options_.readers; ++i) threads_.emplace_back([this] { Run(&to_read_, false); });
  threads_.emplace_back([this] { RunSweeps(); });
}

LogKeeper::~LogKeeper() { Stop(); }

void LogKeeper::Stop() {
  {
    MutexLock lock(&mutex_);
    ending_ = true;
    for (const auto& [uid, output] : outputs_) output->stop.request_stop();
    changed_.SignalAll();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

LogKeeper::OutputRef LogKeeper::Find(const PodValue& pod) {
  OutputRef& output = outputs_[pod->uid];
  if (output == nullptr) output = std::make_shared<Output>(pod);
  return output;
}

void LogKeeper::Follow(const PodValue& pod) {
  MutexLock lock(&mutex_);
  if (ending_ || outputs_.count(pod->uid) > 0) return;
  to_follow_.push_back(Find(pod));
  changed_.SignalAll();
}

absl::Duration LogKeeper::Detain(const PodValue& pod) {
  MutexLock lock(&mutex_);
  if (ending_) return options_.patience;
  const OutputRef output = Find(pod);
  const absl::Time now = parts_.clock->Steady();
  if (output->is_settled) return absl::ZeroDuration();
  if (output->deadline == absl::InfiniteFuture()) {
    output->deadline = now + options_.patience;
    if (!output->is_taken) to_read_.push_back(output);
    changed_.SignalAll();
  }
  if (now < output->deadline) return output->deadline - now;
  output->is_settled = true;
  output->stop.request_stop();
  return absl::ZeroDuration();
}

void LogKeeper::Observe(const PodValue& before, const PodValue& after) {
  if (after == nullptr) {
    MutexLock lock(&mutex_);
    const auto gone = outputs_.find(before->uid);
    if (gone == outputs_.end()) return;
    gone->second->is_settled = true;
    gone->second->stop.request_stop();
    outputs_.erase(gone);
  } else if (after->is_being_deleted && after->IsReplica() && !after->HasEnded()) {
    Follow(after);
  }
}

void LogKeeper::Sweep(std::function<bool(const std::string& job_uid)> job_is_there) {
  MutexLock lock(&mutex_);
  sweep_ = std::move(job_is_there);
  changed_.SignalAll();
}

LogKeeper::OutputRef LogKeeper::Take(std::deque<OutputRef>* queue) {
  MutexLock lock(&mutex_);
  while (!ending_) {
    if (queue->empty()) {
      changed_.Wait(&mutex_);
      continue;
    }
    OutputRef output = std::move(queue->front());
    queue->pop_front();
    if (std::exchange(output->is_taken, true)) continue;
    return output;
  }
  return nullptr;
}

bool LogKeeper::IsEnding() {
  MutexLock lock(&mutex_);
  return ending_;
}

void LogKeeper::Run(std::deque<OutputRef>* queue, bool follow) {
  while (const OutputRef output = Take(queue)) {
    bool is_whole = true;
    if (parts_.is_known(*output->pod)) {
      KeptLog log;
      const absl::Status status = Read(*output, follow, &log);
      // The next leader reads it anew.
      if (!status.ok() && IsEnding()) return;
      is_whole = status.ok();
      Keep(*output, status, log);
    }
    Settle(output, is_whole || !follow);
  }
}

void LogKeeper::RunSweeps() {
  while (true) {
    std::function<bool(const std::string&)> job_is_there;
    {
      MutexLock lock(&mutex_);
      while (!ending_ && sweep_ == nullptr) changed_.Wait(&mutex_);
      if (ending_) return;
      job_is_there = std::exchange(sweep_, nullptr);
    }
    parts_.kept->Sweep(job_is_there);
  }
}

absl::Status LogKeeper::Read(const Output& output, bool follow, KeptLog* log) const {
  const std::stop_token stop = output.stop.get_token();
  const size_t most_lines = options_.keep_bytes / kShortestLine + 1;
  const PodLogRequest request = {.pod = output.pod->key,
                                 .container = output.pod->container,
                                 .follow = follow,
                                 .tail_lines = static_cast<int>(most_lines)};
  LogTail tail(options_.keep_bytes);
  const auto take = [&](const v1::StreamReplicaLogsResponse& lines) {
    tail.Add(lines);
    return absl::OkStatus();
  };
  absl::Time last = absl::InfinitePast();
  absl::Status status = absl::CancelledError();
  if (!stop.stop_requested()) {
    status = ReadPodLog(*parts_.client, request, options_.pauses, take, &last, stop);
  }
  log->text = tail.Text();
  log->beginning_is_missing = tail.is_cut() || tail.lines() >= most_lines;
  if (stop.stop_requested()) {
    log->error = "its node had not sent all of it when its pod went";
  } else if (!status.ok()) {
    log->error = std::string(status.message());
  }
  return status;
}

void LogKeeper::Keep(const Output& output, const absl::Status& status, const KeptLog& log) const {
  const std::string& job = output.pod->job_uid;
  const std::string& replica = output.pod->report.replica().replica_id();
  const bool has_nothing = !status.ok() && log.text.empty();
  // Its container never ran, or there is more of it already.
  const bool never_was = absl::IsInvalidArgument(status) || absl::IsNotFound(status);
  if (has_nothing && (never_was || parts_.kept->Has(job, replica))) return;
  const absl::Status kept = parts_.kept->Put(job, replica, log);
  if (!kept.ok() && parts_.report != nullptr) {
    parts_.report(absl::StrCat("keeping the output of replica ", replica), kept);
  }
}

void LogKeeper::Settle(const OutputRef& output, bool is_over) {
  {
    MutexLock lock(&mutex_);
    if (ending_) return;
    if (is_over || output->is_settled) {
      output->is_settled = true;
    } else {
      // Followed, and not to its end: it is read again when it has ended.
      output->is_taken = false;
      if (output->deadline == absl::InfiniteFuture()) return;
      to_read_.push_back(output);
      changed_.SignalAll();
      return;
    }
  }
  parts_.settled(output->pod->report.replica().replica_id());
}

}  // namespace adaptdl::supervisor
