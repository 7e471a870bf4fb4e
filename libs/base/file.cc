#include "libs/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/random_id.h"

namespace adaptdl {
namespace {

absl::Status WriteAndSync(int fd, absl::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, absl::StrCat("write ", path));
    content.remove_prefix(written);
  }
  if (fsync(fd) != 0) return ErrnoStatus(errno, absl::StrCat("sync ", path));
  return absl::OkStatus();
}

absl::Status SyncFolder(const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open folder ", folder));
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  return result == 0 ? absl::OkStatus() : ErrnoStatus(error, absl::StrCat("sync folder ", folder));
}

}  // namespace

absl::Status ErrnoStatus(int error_number, absl::string_view what) {
  return absl::ErrnoToStatus(error_number, what);
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view content, int mode) {
  const std::string temporary = absl::StrCat(path, ".", RandomHex(4), ".tmp");
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("create ", temporary));
  absl::Status status = WriteAndSync(fd, content, temporary);
  close(fd);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = ErrnoStatus(errno, absl::StrCat("rename ", temporary, " to ", path));
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return SyncFolder(folder.empty() ? "." : folder);
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, int64_t max_bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open ", path));
  std::string content;
  char buffer[1 << 16];
  absl::Status status;
  while (true) {
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) status = ErrnoStatus(errno, absl::StrCat("read ", path));
    if (count <= 0) break;
    content.append(buffer, count);
    if (static_cast<int64_t>(content.size()) > max_bytes) {
      status = absl::OutOfRangeError(absl::StrCat(path, " is larger than ", max_bytes, " bytes"));
      break;
    }
  }
  close(fd);
  if (!status.ok()) return status;
  return content;
}

}  // namespace adaptdl
