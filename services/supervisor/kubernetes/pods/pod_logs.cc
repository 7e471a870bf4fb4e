#include "services/supervisor/kubernetes/pods/pod_logs.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/backoff.h"
#include "libs/kube/json/json.h"
#include "services/supervisor/kubernetes/pods/log_lines.h"

namespace adaptdl::supervisor {
namespace {

using kube::Json;

absl::Status Abandoned() { return absl::CancelledError("nobody reads this log any more"); }

// Of a log that is followed: the server may come back to it.
bool MayGoOn(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsInternal(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsResourceExhausted(status);
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

std::shared_ptr<PodLogReader> PodLogs::Start(const PodLogRequest& request, std::function<void()> notify) {
  std::shared_ptr<PodLogReader> reader(new PodLogReader(std::move(notify)));
  MutexLock lock(&mutex_);
  Reap();
  if (workers_.size() >= options_.max_readers) {
    reader->Finish(absl::ResourceExhaustedError(
        absl::StrCat(workers_.size(), " logs are being read at a time; try again later")));
    return reader;
  }
  workers_.push_back({reader, std::thread([this, request, reader] { Run(request, reader.get()); })});
  return reader;
}

void PodLogs::Run(const PodLogRequest& request, PodLogReader* reader) const {
  const std::stop_token stop = reader->stop_source().get_token();
  Backoff backoff(options_.first_pause, options_.longest_pause);
  absl::Time last = absl::InfinitePast();
  absl::Status status;
  do {
    const absl::Time before = last;
    // Looked at first: of one that has ended by now, the log is whole.
    const absl::StatusOr<bool> ended = request.follow ? HasEnded(request, stop) : true;
    if (absl::IsNotFound(ended.status())) {
      status = ended.status();
      break;
    }
    status = Read(request, &last, reader);
    if ((status.ok() && ended.value_or(false)) || (!status.ok() && (!request.follow || !MayGoOn(status))))
      break;
    if (last != before) backoff.Reset();
  } while (client_.session().pauses().WaitFor(backoff.Next(), stop));
  reader->Finish(stop.stop_requested() ? Abandoned() : status);
}

absl::StatusOr<bool> PodLogs::HasEnded(const PodLogRequest& request, const std::stop_token& stop) const {
  const absl::StatusOr<Json> pod = client_.Get(kube::ObjectOf(kube::Pods(), request.pod), stop);
  if (!pod.ok()) return pod.status();
  const std::string phase = kube::TextAt(*pod, {"status", "phase"});
  if (phase == "Succeeded" || phase == "Failed") return true;
  const Json& statuses = kube::At(*pod, {"status", "containerStatuses"});
  return statuses.is_array() && std::any_of(statuses.begin(), statuses.end(), [&](const Json& status) {
           return kube::TextAt(status, {"name"}) == request.container &&
                  kube::At(status, {"state", "terminated"}).is_object();
         });
}

absl::Status PodLogs::Read(const PodLogRequest& request, absl::Time* last, PodLogReader* reader) const {
  kube::ApiRequest call = {.target = kube::ObjectOf(kube::Pods(), request.pod).Sub("log"),
                           .query = {{"container", request.container}, {"timestamps", "true"}},
                           .timeout = absl::InfiniteDuration()};
  if (request.follow) call.query.emplace_back("follow", "true");
  if (*last != absl::InfinitePast()) {
    // In whole seconds; what was read of this one already is left out below.
    call.query.emplace_back("sinceTime", kube::TimeText(*last));
  } else if (request.tail_lines > 0) {
    call.query.emplace_back("tailLines", absl::StrCat(request.tail_lines));
  }
  LogLines parser(*last);
  const auto offer = [&](v1::StreamReplicaLogsResponse lines) {
    absl::Status status = reader->Offer(std::move(lines));
    if (status.ok()) *last = parser.last();
    return status;
  };
  const absl::Status status = client_.session().Stream(
      call,
      [&](absl::string_view part) {
        v1::StreamReplicaLogsResponse lines;
        parser.Feed(part, &lines);
        return offer(std::move(lines));
      },
      reader->stop_source().get_token());
  if (!status.ok()) return status;
  v1::StreamReplicaLogsResponse lines;
  parser.Finish(&lines);
  return offer(std::move(lines));
}

}  // namespace adaptdl::supervisor
