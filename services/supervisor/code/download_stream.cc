#include "services/supervisor/code/download_stream.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "libs/rpc/status.h"

namespace adaptdl::supervisor {
namespace {

constexpr int64_t kPieceBytes = 512 << 10;

}  // namespace

absl::Status DownloadStream::Open() {
  absl::StatusOr<CodeStore::Whole> whole = store_->OpenWhole(key_);
  if (!whole.ok()) return whole.status();
  whole_ = *std::move(whole);
  if (offset_ == 0) digester_.emplace();
  if (offset_ >= 0 && offset_ <= whole_.size) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("offset: ", offset_, ": the archive has ", whole_.size, " bytes"));
}

absl::Status DownloadStream::ReadPiece(v1::DownloadCodeResponse* message) {
  std::string* data = message->mutable_data();
  data->resize(static_cast<size_t>(std::min(kPieceBytes, whole_.size - offset_)));
  ssize_t size = -1;
  do {
    size = pread(whole_.file.get(), data->data(), data->size(), offset_);
  } while (size < 0 && errno == EINTR);
  if (size < 0) return ErrnoStatus(errno, "read the archive");
  if (size == 0) return Damaged();
  data->resize(static_cast<size_t>(size));
  offset_ += size;
  if (digester_.has_value()) digester_->Add(*data);
  message->set_size(whole_.size);
  return absl::OkStatus();
}

absl::Status DownloadStream::CheckDigest() {
  return !digester_.has_value() || digester_->Finish() == key_.second ? absl::OkStatus() : Damaged();
}

absl::Status DownloadStream::Damaged() {
  store_->Drop(key_);
  return absl::DataLossError(
      absl::StrCat("the archive ", key_.second,
                   " is damaged where the supervisor keeps it, and has been removed: submit "
                   "the job again"));
}

Pull DownloadStream::Next(v1::DownloadCodeResponse* message, grpc::Status* end) {
  absl::Status status = whole_.file.valid() ? absl::OkStatus() : Open();
  if (status.ok() && offset_ == whole_.size) status = CheckDigest();
  if (status.ok() && offset_ == whole_.size) return Pull::kEnd;
  status.Update(status.ok() ? ReadPiece(message) : status);
  if (status.ok()) return Pull::kMessage;
  *end = rpc::ToGrpcStatus(status);
  return Pull::kEnd;
}

}  // namespace adaptdl::supervisor
