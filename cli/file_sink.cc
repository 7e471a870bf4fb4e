#include "cli/file_sink.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "cli/format.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"

namespace adaptdl::cli {
namespace {

constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// The components of a relative path that stays where it is.
absl::StatusOr<std::vector<std::string>> SplitPath(absl::string_view path) {
  std::vector<std::string> parts = absl::StrSplit(path, '/');
  for (const std::string& part : parts) {
    if (part.empty() || part == "." || part == ".." || absl::StrContains(part, absl::string_view("\0", 1))) {
      return absl::InvalidArgumentError(
          absl::StrCat("the server sent the path \"", Printable(path), "\", which is refused"));
    }
  }
  return parts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileSink>> FileSink::Create(const std::string& root) {
  const int fd = open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open folder ", root));
  return std::unique_ptr<FileSink>(new FileSink(root, fd));
}

FileSink::~FileSink() {
  Discard();
  close(root_fd_);
}

absl::StatusOr<int> FileSink::OpenParent(absl::string_view path, std::string* name) {
  absl::StatusOr<std::vector<std::string>> parts = SplitPath(path);
  if (!parts.ok()) return parts.status();
  *name = parts->back();
  parts->pop_back();
  int folder = dup(root_fd_);
  for (const std::string& part : *parts) {
    if (folder < 0) break;
    int next = -1;
    // A folder comes before its files, but a server may leave that out.
    if (mkdirat(folder, part.c_str(), 0777) == 0 || errno == EEXIST) {
      next = openat(folder, part.c_str(), kFolderFlags);
    }
    const int error = errno;
    close(folder);
    folder = next;
    errno = error;
  }
  if (folder < 0) return ErrnoStatus(errno, absl::StrCat("open the folder of ", root_, "/", path));
  return folder;
}

absl::Status FileSink::MakeFolder(absl::string_view path) {
  const absl::Status finished = Finish();
  if (!finished.ok() || path.empty()) return finished;
  std::string name;
  const absl::StatusOr<int> parent = OpenParent(path, &name);
  if (!parent.ok()) return parent.status();
  const auto close_parent = absl::MakeCleanup([&] { close(*parent); });
  if (mkdirat(*parent, name.c_str(), 0777) == 0) return absl::OkStatus();
  struct stat status {};
  if (errno == EEXIST && fstatat(*parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISDIR(status.st_mode)) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, absl::StrCat("make folder ", root_, "/", path));
}

absl::Status FileSink::Begin(absl::string_view path, uint32_t mode, int64_t size) {
  const absl::StatusOr<int> parent = OpenParent(path, &name_);
  if (!parent.ok()) return parent.status();
  path_ = std::string(path);
  parent_fd_ = *parent;
  size_ = size;
  written_ = 0;
  temporary_ = absl::StrCat(".adaptdl-", RandomHex(8), ".part");
  // Neither special bits nor a file that its owner could not delete again.
  const mode_t permissions = (mode & 0777) | S_IRUSR | S_IWUSR;
  fd_ = openat(parent_fd_, temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
               permissions);
  if (fd_ >= 0) return absl::OkStatus();
  const absl::Status status = ErrnoStatus(errno, absl::StrCat("create ", root_, "/", path));
  close(std::exchange(parent_fd_, -1));
  return status;
}

absl::Status FileSink::Write(absl::string_view path, uint32_t mode, int64_t size, int64_t offset,
                             absl::string_view data) {
  if (offset == 0) {
    absl::Status status = Finish();
    if (status.ok()) status = Begin(path, mode, size);
    if (!status.ok()) return status;
  }
  if (fd_ < 0 || path != path_ || offset != written_) {
    return absl::InvalidArgumentError(
        absl::StrCat("the server sent the pieces of ", Printable(path), " out of order"));
  }
  while (!data.empty()) {
    const ssize_t count = write(fd_, data.data(), data.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, absl::StrCat("write ", root_, "/", path));
    data.remove_prefix(count);
    written_ += count;
  }
  return written_ >= size_ ? Commit() : absl::OkStatus();
}

absl::Status FileSink::Commit() {
  if (renameat(parent_fd_, temporary_.c_str(), parent_fd_, name_.c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("write ", root_, "/", path_));
  }
  close(std::exchange(fd_, -1));
  close(std::exchange(parent_fd_, -1));
  ++files_;
  bytes_ += written_;
  return absl::OkStatus();
}

absl::Status FileSink::Finish() {
  if (fd_ < 0) return absl::OkStatus();
  const absl::Status status =
      absl::DataLossError(absl::StrCat(Printable(path_), " was cut short after ", written_, " of ", size_,
                                       " bytes; it may be being written: try again"));
  Discard();
  return status;
}

void FileSink::Discard() {
  if (fd_ < 0) return;
  unlinkat(parent_fd_, temporary_.c_str(), 0);
  close(std::exchange(fd_, -1));
  close(std::exchange(parent_fd_, -1));
}

}  // namespace adaptdl::cli
