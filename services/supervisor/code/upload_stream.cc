#include "services/supervisor/code/upload_stream.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/rpc/status.h"
#include "services/supervisor/calls/pages.h"

namespace adaptdl::supervisor {
namespace {

constexpr size_t kMaxPieceBytes = 1 << 20;
constexpr char kCall[] = "UploadCode";

}  // namespace

void UploadStream::Begin(std::shared_ptr<void> place) {
  self_ = shared_from_this();
  place_ = std::move(place);
  MutexLock lock(&mutex_);
  reading_ = true;
  StartRead(&piece_);
}

void UploadStream::End(const grpc::Status& status) {
  MutexLock lock(&mutex_);
  if (std::exchange(ended_, true)) return;
  Finish(status);
}

bool UploadStream::ended() {
  MutexLock lock(&mutex_);
  return ended_;
}

void UploadStream::CheckReader(absl::Time now, absl::Duration patience) {
  {
    MutexLock lock(&mutex_);
    if (!reading_ || ended_) return;
    if (!reads_since_.has_value()) reads_since_ = now;
    if (now - *reads_since_ < patience) return;
  }
  End(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED,
                   absl::StrCat("nothing has come for ", absl::FormatDuration(patience),
                                ": go on from where the upload is")));
}

void UploadStream::OnReadDone(bool ok) {
  {
    MutexLock lock(&mutex_);
    reading_ = false;
    reads_since_.reset();
  }
  // gRPC may be done with the stream before the executor is.
  executor_->Post(caller_, [this, self = shared_from_this(), ok] { ok ? Take() : Close(); });
}

void UploadStream::OnDone() {
  // The last reference may be this one.
  const std::shared_ptr<EndableStream> self = std::move(self_);
  place_.reset();
}

void UploadStream::Take() {
  if (ended()) return;
  const absl::Status status = executor_->invariants()->Guard(kCall, [this] { return TakePiece(); });
  if (!status.ok()) return End(rpc::ToGrpcStatus(status));
  MutexLock lock(&mutex_);
  if (ended_) return;
  reading_ = true;
  StartRead(&piece_);
}

absl::Status UploadStream::TakePiece() {
  if (piece_.data().size() > kMaxPieceBytes) {
    return absl::OutOfRangeError(absl::StrCat("data: ", piece_.data().size(), " bytes: a piece has at most ",
                                              kMaxPieceBytes, "; send smaller ones"));
  }
  if (upload_ == nullptr) {
    const std::string name_space = NamespaceOr(piece_.namespace_());
    if (absl::Status status = check_(name_space); !status.ok()) return status;
    if (store_ == nullptr) return NoCodeStore();
    absl::StatusOr<std::unique_ptr<CodeStore::Upload>> upload =
        store_->Begin({name_space, piece_.digest()}, piece_.size(), piece_.offset());
    if (!upload.ok()) return upload.status();
    upload_ = *std::move(upload);
  }
  return upload_->complete() ? absl::OkStatus() : store_->Append(upload_.get(), piece_.data());
}

void UploadStream::Close() {
  // What was refused is not stored, whatever has come of it.
  if (ended()) return;
  absl::StatusOr<CodeStore::Progress> progress = absl::InvalidArgumentError("no piece has come");
  const absl::Status status = executor_->invariants()->Guard(kCall, [&] {
    if (upload_ != nullptr) progress = store_->Finish(upload_.get());
    return progress.status();
  });
  MutexLock lock(&mutex_);
  if (std::exchange(ended_, true)) return;
  if (status.ok()) {
    response_->set_received(progress->received);
    response_->set_complete(progress->complete);
  }
  Finish(rpc::ToGrpcStatus(status));
}

}  // namespace adaptdl::supervisor
