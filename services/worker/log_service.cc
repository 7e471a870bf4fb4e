#include "services/worker/log_service.h"

#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "libs/rpc/status.h"
#include "services/worker/job_files.h"
#include "services/worker/names.h"
#include "services/worker/selected_log.h"

namespace adaptdl::worker {
namespace {

constexpr absl::Duration kPollPeriod = absl::Milliseconds(100);
constexpr size_t kBatchBytes = 128 << 10;
// Of a log, what is read at a time where nothing of it is wanted: others are to have their turn.
constexpr size_t kScanBytes = 4 << 20;

template <typename Response>
class FailedStream final : public grpc::ServerWriteReactor<Response> {
 public:
  explicit FailedStream(const absl::Status& status) { this->Finish(rpc::ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

// Owns itself: gRPC holds it until OnDone(), the list of followers while it waits there. At any moment
// exactly one of them acts on it: a write in progress, or the list.
class LogStreamReactor final : public grpc::ServerWriteReactor<v1::StreamReplicaLogsResponse>,
                               public WaitingFollower {
 public:
  LogStreamReactor(const ReplicaManager* replicas, FollowerList* followers,
                   const ReplicaManager::LogPlace& place, const v1::StreamReplicaLogsRequest& request,
                   std::unique_ptr<SelectedLog> log)
      : replicas_(replicas),
        followers_(followers),
        place_(place),
        replica_id_(request.replica_id()),
        follow_(request.follow()),
        log_(std::move(log)) {}

  void Start(std::shared_ptr<LogStreamReactor> self) {
    self_ = std::move(self);
    GoOn();
  }

  void OnWriteDone(bool ok) override {
    if (!ok) {
      Finish(grpc::Status::CANCELLED);
      return;
    }
    GoOn();
  }

  void OnCancel() override {
    MutexLock lock(&mutex_);
    cancelled_ = true;
  }

  // No call of gRPC comes after this one.
  void OnDone() override { std::shared_ptr<LogStreamReactor>(std::move(self_)).reset(); }

  bool Poll() override {
    if (Cancelled()) {
      Finish(grpc::Status::CANCELLED);
      return false;
    }
    return !Advance();
  }

 private:
  bool Cancelled() {
    MutexLock lock(&mutex_);
    return cancelled_;
  }

  void GoOn() {
    if (!Advance()) followers_->Add(self_);
  }

  // Writes or finishes. False: neither; there is nothing new, or there was too much to look through at a time.
  bool Advance() {
    // Before reading: what was written before the end is then sure to be seen.
    const bool last = !follow_ || replicas_->LogIsComplete(replica_id_);
    response_.Clear();
    bool has_more = true;
    for (size_t read = 0; has_more && read < kScanBytes && response_.lines().empty(); read += kBatchBytes) {
      has_more = log_->Read(kBatchBytes, last, response_.mutable_lines());
    }
    if (response_.lines_size() > 0) {
      for (v1::LogLine& line : *response_.mutable_lines()) Sign(&line);
      StartWrite(&response_);
      return true;
    }
    if (has_more) return false;
    if (last) {
      Finish(grpc::Status::OK);
      return true;
    }
    if (followers_->ending()) {
      Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the worker is ending: ask again in a moment"));
      return true;
    }
    return false;
  }

  void Sign(v1::LogLine* line) const {
    line->set_replica_id(replica_id_);
    line->set_group(place_.group);
    line->set_rank(place_.rank);
  }

  const ReplicaManager* const replicas_;
  FollowerList* const followers_;
  const ReplicaManager::LogPlace place_;
  const std::string replica_id_;
  const bool follow_;
  const std::unique_ptr<SelectedLog> log_;
  v1::StreamReplicaLogsResponse response_;
  std::shared_ptr<LogStreamReactor> self_;
  Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

class FileStreamReactor final : public grpc::ServerWriteReactor<v1::ReadJobFilesResponse> {
 public:
  explicit FileStreamReactor(std::unique_ptr<JobFileReader> reader) : reader_(std::move(reader)) { GoOn(); }

  void OnWriteDone(bool ok) override {
    if (ok) {
      GoOn();
    } else {
      Finish(grpc::Status::CANCELLED);
    }
  }
  void OnDone() override { delete this; }

 private:
  void GoOn() {
    absl::StatusOr<std::optional<v1::FileChunk>> chunk = reader_->Next();
    if (!chunk.ok() || !chunk->has_value()) {
      Finish(rpc::ToGrpcStatus(chunk.status()));
      return;
    }
    *response_.mutable_chunk() = *std::move(*chunk);
    StartWrite(&response_);
  }

  const std::unique_ptr<JobFileReader> reader_;
  v1::ReadJobFilesResponse response_;
};

}  // namespace

FollowerList::FollowerList(absl::Duration period) : period_(period), thread_([this] { Run(); }) {}

FollowerList::~FollowerList() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

void FollowerList::Add(std::shared_ptr<WaitingFollower> follower) {
  MutexLock lock(&mutex_);
  followers_.push_back(std::move(follower));
  changed_.SignalAll();
}

bool FollowerList::ending() const {
  MutexLock lock(&mutex_);
  return ending_;
}

void FollowerList::End() {
  MutexLock lock(&mutex_);
  ending_ = true;
  changed_.SignalAll();
}

void FollowerList::Run() {
  while (true) {
    std::vector<std::shared_ptr<WaitingFollower>> waiting;
    {
      MutexLock lock(&mutex_);
      while (!stopping_ && followers_.empty()) changed_.Wait(&mutex_);
      if (!stopping_ && !ending_) changed_.WaitFor(&mutex_, period_);
      if (stopping_) return;
      waiting.swap(followers_);
    }
    for (std::shared_ptr<WaitingFollower>& follower : waiting) {
      if (follower->Poll()) Add(std::move(follower));
    }
  }
}

LogServiceImpl::LogServiceImpl(const ReplicaManager* replicas, std::string storage_folder)
    : replicas_(replicas), storage_folder_(std::move(storage_folder)), followers_(kPollPeriod) {}

grpc::ServerWriteReactor<v1::StreamReplicaLogsResponse>* LogServiceImpl::StreamReplicaLogs(
    grpc::CallbackServerContext* /*context*/, const v1::StreamReplicaLogsRequest* request) {
  using Failed = FailedStream<v1::StreamReplicaLogsResponse>;
  if (absl::Status status = CheckReplicaId(request->replica_id()); !status.ok()) return new Failed(status);
  const absl::StatusOr<ReplicaManager::LogPlace> place = replicas_->FindLog(request->replica_id());
  if (!place.ok()) return new Failed(place.status());
  absl::StatusOr<std::unique_ptr<SelectedLog>> log = SelectedLog::Open(place->folder, *request);
  if (!log.ok()) return new Failed(log.status());
  const auto stream =
      std::make_shared<LogStreamReactor>(replicas_, &followers_, *place, *request, *std::move(log));
  stream->Start(stream);
  return stream.get();
}

grpc::ServerWriteReactor<v1::ReadJobFilesResponse>* LogServiceImpl::ReadJobFiles(
    grpc::CallbackServerContext* /*context*/, const v1::ReadJobFilesRequest* request) {
  absl::StatusOr<std::unique_ptr<JobFileReader>> reader = JobFileReader::Open(storage_folder_, *request);
  if (!reader.ok()) return new FailedStream<v1::ReadJobFilesResponse>(reader.status());
  return new FileStreamReactor(*std::move(reader));
}

}  // namespace adaptdl::worker
