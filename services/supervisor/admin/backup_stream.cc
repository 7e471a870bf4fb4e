#include "services/supervisor/admin/backup_stream.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/status/statusor.h"
#include "libs/base/file.h"
#include "libs/rpc/status.h"

namespace adaptdl::supervisor {
namespace {

constexpr int64_t kPieceBytes = 256 << 10;

}  // namespace

absl::Status BackupStream::CopyStore() {
  const absl::StatusOr<std::string> path = store_->Backup();
  if (!path.ok()) return path.status();
  copy_.open(*path, std::ios::binary);
  std::error_code error;
  const auto size = std::filesystem::file_size(*path, error);
  if (error || !copy_) return ErrnoStatus(error ? error.value() : errno, *path);
  std::filesystem::remove(*path, error);
  size_ = static_cast<int64_t>(size);
  return absl::OkStatus();
}

Pull BackupStream::Next(v1::BackupResponse* message, grpc::Status* end) {
  if (size_ < 0) {
    if (const absl::Status status = CopyStore(); !status.ok()) {
      *end = rpc::ToGrpcStatus(status);
      return Pull::kEnd;
    }
  }
  if (sent_ == size_) return Pull::kEnd;
  std::string* data = message->mutable_data();
  data->resize(static_cast<size_t>(std::min(kPieceBytes, size_ - sent_)));
  if (!copy_.read(data->data(), static_cast<std::streamsize>(data->size()))) {
    *end = grpc::Status(grpc::StatusCode::UNAVAILABLE, "the copy of the state database can't be read");
    return Pull::kEnd;
  }
  sent_ += static_cast<int64_t>(data->size());
  message->set_size(size_);
  return Pull::kMessage;
}

}  // namespace adaptdl::supervisor
