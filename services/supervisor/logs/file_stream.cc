#include "services/supervisor/logs/file_stream.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace adaptdl::supervisor {

FileStream::FileStream(const LogLocations* locations, const Lanes* lanes, const std::string& caller,
                       WorkerChannels* workers, const v1::Job& job, const v1::ReadFilesRequest& request)
    : PullReactor(lanes->readers, lanes->durability, caller),
      workers_(workers),
      servers_(locations->FindFileServers(job.uid())),
      last_error_(grpc::StatusCode::UNAVAILABLE,
                  "no worker is there to read the files; start one and try again") {
  request_.set_namespace_(job.namespace_());
  request_.set_job(job.name());
  request_.set_job_uid(job.uid());
  request_.set_folder(request.folder());
  request_.set_path(request.path());
}

absl::Status FileStream::Validate(const v1::ReadFilesRequest& request) {
  if (request.folder() != v1::JOB_FOLDER_SHARE && request.folder() != v1::JOB_FOLDER_CHECKPOINT) {
    return absl::InvalidArgumentError("folder: not set; give JOB_FOLDER_SHARE or JOB_FOLDER_CHECKPOINT");
  }
  bool leaves = absl::StartsWith(request.path(), "/") || request.path().size() > 4096;
  for (const absl::string_view part : absl::StrSplit(request.path(), '/')) leaves = leaves || part == "..";
  if (leaves) {
    return absl::InvalidArgumentError("path: must be relative to the job's folder, without \"..\"");
  }
  return absl::OkStatus();
}

void FileStream::StartReader() {
  stub_ = workers_->LogStub(servers_[next_server_++]);
  std::weak_ptr<EndableStream> weak = weak_from_this();
  reader_ = Reader::Start(
      [this](auto* context, auto* reactor) { stub_->async()->ReadJobFiles(context, &request_, reactor); },
      [this, weak] {
        if (const auto self = weak.lock()) Poke();
      });
}

Pull FileStream::Next(v1::ReadFilesResponse* message, grpc::Status* end) {
  while (true) {
    if (reader_ == nullptr) {
      if (next_server_ == servers_.size()) {
        *end = last_error_;
        return Pull::kEnd;
      }
      StartReader();
    }
    switch (reader_->state()) {
      case Reader::State::kWaiting:
        return Pull::kWait;
      case Reader::State::kReady: {
        v1::ReadJobFilesResponse response = reader_->Take();
        *message->mutable_chunk() = std::move(*response.mutable_chunk());
        sent_any_ = true;
        return Pull::kMessage;
      }
      case Reader::State::kDone: {
        const grpc::Status status = reader_->status();
        if (!sent_any_ && status.error_code() == grpc::StatusCode::UNAVAILABLE) {
          last_error_ = status;
          reader_ = nullptr;
          continue;
        }
        *end = status;
        return Pull::kEnd;
      }
    }
  }
}

void FileStream::OnEnd() {
  if (reader_ != nullptr) reader_->Abandon();
}

}  // namespace adaptdl::supervisor
