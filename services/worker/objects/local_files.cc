#include "services/worker/objects/local_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/file.h"

namespace adaptdl::worker {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFiles = 100'000;
constexpr int kMaxDepth = 32;
// O_NONBLOCK: a FIFO must not hold us up.
constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW;
constexpr int kFolderFlags = O_RDONLY | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW;

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

absl::Status ListFolder(UniqueFd fd, const std::string& prefix, int depth, std::vector<LocalFile>* files) {
  const std::unique_ptr<DIR, CloseFolder> folder(fdopendir(fd.get()));
  if (folder == nullptr) return ErrnoStatus(errno, absl::StrCat("read the folder \"", prefix, "\""));
  const int folder_fd = fd.Release();
  if (depth > kMaxDepth)
    return absl::OutOfRangeError(absl::StrCat("\"", prefix, "\" is more than ", kMaxDepth, " folders deep"));
  while (const dirent* entry =
             readdir(folder.get())) {  // NOLINT(concurrency-mt-unsafe): of this folder alone
    const std::string name = entry->d_name;
    const std::string path = absl::StrCat(prefix, name);
    struct stat info = {};
    if (name.starts_with('.') || !objectstore::CheckKey(path).ok()) continue;
    if (fstatat(folder_fd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;  // it is gone
    if (S_ISDIR(info.st_mode)) {
      UniqueFd below(openat(folder_fd, name.c_str(), kFolderFlags));
      if (!below.valid()) continue;
      const absl::Status status = ListFolder(std::move(below), path + "/", depth + 1, files);
      if (!status.ok()) return status;
    } else if (S_ISREG(info.st_mode)) {
      if (files->size() == kMaxFiles)
        return absl::OutOfRangeError(absl::StrCat("there are more than ", kMaxFiles, " files"));
      files->push_back({.path = path,
                        .size = info.st_size,
                        .changed_ns = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec});
    }
  }
  return absl::OkStatus();
}

absl::Status WriteAll(int fd, absl::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      return ErrnoStatus(errno, absl::StrCat("write ", path));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<LocalFile>> ListFiles(const std::string& folder) {
  std::vector<LocalFile> files;
  UniqueFd fd(open(folder.c_str(), kFolderFlags));
  if (!fd.valid() && errno == ENOENT) return files;
  if (!fd.valid()) return ErrnoStatus(errno, absl::StrCat("open ", folder));
  if (const absl::Status status = ListFolder(std::move(fd), "", 0, &files); !status.ok()) return status;
  std::sort(files.begin(), files.end());
  return files;
}

absl::StatusOr<UniqueFd> OpenFile(const std::string& folder, const std::string& path) {
  if (const absl::Status status = objectstore::CheckKey(path); !status.ok()) return status;
  UniqueFd fd(open(folder.c_str(), kFolderFlags));
  const std::vector<std::string> parts = absl::StrSplit(path, '/');
  for (size_t i = 0; i < parts.size() && fd.valid(); ++i) {
    const bool last = i + 1 == parts.size();
    fd = UniqueFd(openat(fd.get(), parts[i].c_str(), last ? kReadFlags : kFolderFlags));
  }
  struct stat info = {};
  if (fd.valid() && fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode)) return fd;
  return absl::FailedPreconditionError(absl::StrCat("\"", path, "\" is no file any more"));
}

objectstore::ObjectStore::Source SourceOf(const UniqueFd& file) {
  return [fd = file.get()](int64_t offset, int64_t length) -> absl::StatusOr<std::string> {
    std::string bytes(static_cast<size_t>(length), '\0');
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t got =
          pread(fd, bytes.data() + done, bytes.size() - done, offset + static_cast<off_t>(done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return ErrnoStatus(errno, "read a file");
      if (got == 0) break;  // it is shorter than it was
      done += static_cast<size_t>(got);
    }
    bytes.resize(done);
    return bytes;
  };
}

absl::StatusOr<FileWriter> FileWriter::Create(const std::string& path, bool resume) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("make the folder of ", path));
  UniqueFd file(open(path.c_str(),
                     O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_APPEND | (resume ? 0 : O_TRUNC), 0600));
  struct stat info = {};
  if (!file.valid() || fstat(file.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("make ", path));
  return FileWriter(path, std::move(file), info.st_size);
}

absl::Status FileWriter::Append(absl::string_view part) {
  size_ += static_cast<int64_t>(part.size());
  return WriteAll(file_.get(), part, path_);
}

absl::Status FileWriter::Finish(const std::optional<FileOwner>& owner) {
  if (fsync(file_.get()) != 0) return ErrnoStatus(errno, absl::StrCat("sync ", path_));
  if (owner.has_value() && fchown(file_.get(), owner->uid, owner->gid) != 0)
    return ErrnoStatus(errno, absl::StrCat("give ", path_, " to user ", owner->uid));
  return absl::OkStatus();
}

absl::Status CheckRoom(const std::string& folder, int64_t bytes) {
  struct statvfs info = {};
  if (statvfs(folder.c_str(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("look at ", folder));
  const auto free = static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
  if (bytes <= free) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(bytes, " bytes are to be fetched, and ", folder,
                                                   " has room for ", free, ": make room there"));
}

absl::Status GiveFolders(const std::string& folder, const std::optional<FileOwner>& owner) {
  const auto give = [&](const std::string& path) -> absl::Status {
    if (chmod(path.c_str(), 0700) != 0) return ErrnoStatus(errno, absl::StrCat("give ", path));
    if (owner.has_value() && lchown(path.c_str(), owner->uid, owner->gid) != 0)
      return ErrnoStatus(errno, absl::StrCat("give ", path, " to user ", owner->uid));
    return absl::OkStatus();
  };
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!entry->is_directory()) continue;
    if (const absl::Status status = give(entry->path().string()); !status.ok()) return status;
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("look through ", folder));
  return give(folder);
}

absl::Status MoveInto(const std::string& file, const std::string& folder, const std::string& path,
                      const std::optional<FileOwner>& owner) {
  const auto failed = [&](int error) {
    return ErrnoStatus(error, absl::StrCat("put \"", path, "\" into ", folder));
  };
  if (const absl::Status status = objectstore::CheckKey(path); !status.ok()) return status;
  UniqueFd fd(open(folder.c_str(), kFolderFlags));
  const std::vector<std::string> parts = absl::StrSplit(path, '/');
  for (size_t i = 0; i + 1 < parts.size() && fd.valid(); ++i) {
    const bool made = mkdirat(fd.get(), parts[i].c_str(), 0700) == 0;
    UniqueFd below(openat(fd.get(), parts[i].c_str(), kFolderFlags));
    if (made && below.valid() && owner.has_value() && fchown(below.get(), owner->uid, owner->gid) != 0)
      return failed(errno);
    fd = std::move(below);
  }
  if (!fd.valid() || renameat(AT_FDCWD, file.c_str(), fd.get(), parts.back().c_str()) != 0)
    return failed(errno);
  return absl::OkStatus();
}

}  // namespace adaptdl::worker
