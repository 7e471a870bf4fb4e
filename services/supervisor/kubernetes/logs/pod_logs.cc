#include "services/supervisor/kubernetes/logs/pod_logs.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/logs/last_lines.h"
#include "libs/logs/line_filter.h"
#include "libs/rpc/status.h"
#include "services/supervisor/kubernetes/logs/kept_log_reader.h"

namespace adaptdl::supervisor {
namespace {

absl::Status Abandoned() { return absl::CancelledError("nobody reads this log any more"); }

// What came later than `last`.
absl::Status ReadKept(KeptLogFile file, int tail_lines, absl::Time last, const PodLogSink& offer) {
  KeptLogReader kept(std::move(file), tail_lines, last);
  while (kept.state() == ReaderState::kReady) {
    if (const absl::Status status = offer(kept.Take()); !status.ok()) return status;
  }
  return rpc::FromGrpcStatus(kept.status());
}

}  // namespace

PodLogReader::State PodLogReader::state() const {
  MutexLock lock(&mutex_);
  return ready_ ? State::kReady : done_ ? State::kDone : State::kWaiting;
}

grpc::Status PodLogReader::status() const {
  MutexLock lock(&mutex_);
  return grpc::Status(static_cast<grpc::StatusCode>(status_.code()), std::string(status_.message()));
}

v1::StreamReplicaLogsResponse PodLogReader::Take() {
  MutexLock lock(&mutex_);
  ready_ = false;
  changed_.SignalAll();
  return std::exchange(incoming_, {});
}

void PodLogReader::Abandon() {
  stop_.request_stop();
  MutexLock lock(&mutex_);
  notify_ = nullptr;
  changed_.SignalAll();
}

absl::Status PodLogReader::Offer(v1::StreamReplicaLogsResponse lines) {
  if (lines.lines().empty()) return absl::OkStatus();
  {
    MutexLock lock(&mutex_);
    while (ready_ && !stop_.stop_requested()) changed_.Wait(&mutex_);
    if (stop_.stop_requested()) return Abandoned();
    incoming_ = std::move(lines);
    ready_ = true;
  }
  Notify();
  return absl::OkStatus();
}

void PodLogReader::Finish(const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    status_ = status;
    done_ = true;
  }
  Notify();
}

void PodLogReader::Notify() {
  std::function<void()> notify;
  {
    MutexLock lock(&mutex_);
    notify = notify_;
  }
  if (notify != nullptr) notify();
}

PodLogs::~PodLogs() {
  MutexLock lock(&mutex_);
  for (Worker& worker : workers_) worker.reader->Abandon();
  for (Worker& worker : workers_) worker.thread.join();
}

void PodLogs::Reap() {
  std::erase_if(workers_, [](Worker& worker) {
    if (worker.reader->state() != PodLogReader::State::kDone) return false;
    worker.thread.join();
    return true;
  });
}

std::shared_ptr<PodLogReader> PodLogs::Start(const PodLogRequest& request, std::function<void()> notify,
                                             const KeptLogSource& kept) {
  std::shared_ptr<PodLogReader> reader(new PodLogReader(std::move(notify)));
  {
    MutexLock lock(&mutex_);
    Reap();
    if (workers_.size() < options_.max_readers) {
      workers_.push_back(
          {reader, std::thread([this, request, kept, reader] { Run(request, kept, reader.get()); })});
      return reader;
    }
  }
  reader->Finish(absl::ResourceExhaustedError(
      absl::StrCat(options_.max_readers, " logs are being read at a time; try again later")));
  return reader;
}

void PodLogs::Run(const PodLogRequest& request, const KeptLogSource& kept, PodLogReader* reader) const {
  if (!request.pattern.empty() && request.tail_lines > 0) return RunLastMatching(request, kept, reader);
  absl::Time last = absl::InfinitePast();
  reader->Finish(
      ReadAll(request, kept, reader->stop_source().get_token(), &last,
              [&](v1::StreamReplicaLogsResponse lines) { return reader->Offer(std::move(lines)); }));
}

absl::Status PodLogs::ReadAll(const PodLogRequest& request, const KeptLogSource& kept,
                              const std::stop_token& stop, absl::Time* last, const PodLogSink& sink) const {
  absl::Status status = ReadPodLog(client_, request, options_.pauses, sink, last, stop);
  if (!status.ok() && !stop.stop_requested() && kept != nullptr) {
    absl::StatusOr<KeptLogFile> file = kept();
    if (file.ok()) status = ReadKept(*std::move(file), request.tail_lines, *last, sink);
  }
  return stop.stop_requested() ? Abandoned() : status;
}

void PodLogs::RunLastMatching(const PodLogRequest& request, const KeptLogSource& kept,
                              PodLogReader* reader) const {
  const std::stop_token stop = reader->stop_source().get_token();
  const auto filter = logs::LineFilter::Create(request.since, request.pattern);
  if (!filter.ok()) return reader->Finish(filter.status());
  logs::LastLines matching(request.tail_lines);
  logs::Lines wanted;
  const auto look_through = [&](v1::StreamReplicaLogsResponse lines) {
    for (v1::LogLine& line : *lines.mutable_lines()) (*filter)->Add(std::move(line), &wanted);
    for (v1::LogLine& line : wanted) matching.Add(std::move(line));
    wanted.Clear();
    return absl::OkStatus();
  };
  absl::Time last = absl::InfinitePast();
  PodLogRequest now = request;
  now.follow = false;
  now.tail_lines = 0;
  const absl::Status status = ReadAll(now, kept, stop, &last, look_through);
  (*filter)->Finish(&wanted);
  for (v1::LogLine& line : wanted) matching.Add(std::move(line));
  v1::StreamReplicaLogsResponse found;
  matching.TakeAll(found.mutable_lines());
  if (absl::Status offered = reader->Offer(std::move(found)); !offered.ok()) return reader->Finish(offered);
  if (!request.follow || !status.ok()) return reader->Finish(status);
  // Of a pod that is gone by now, what was kept has been looked through; then there is nothing behind it.
  PodLogRequest rest = request;
  rest.tail_lines = 0;
  reader->Finish(ReadAll(rest, kept, stop, &last, [&](v1::StreamReplicaLogsResponse lines) {
    return reader->Offer(std::move(lines));
  }));
}

}  // namespace adaptdl::supervisor
