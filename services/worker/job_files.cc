#include "services/worker/job_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/file.h"
#include "services/worker/names.h"

namespace adaptdl::worker {
namespace {

// O_NONBLOCK: a FIFO that somebody put there must not hold us up.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
constexpr size_t kMaxPath = 4096;

// Opens `path` below `root_fd` without following any link.
int OpenWithoutLinks(int root_fd, const std::string& path) {
  int folder = root_fd;
  const std::vector<std::string> parts = absl::StrSplit(path, '/', absl::SkipEmpty());
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    const int fd = openat(folder, parts[i].c_str(), kOpenFlags | O_NOFOLLOW | (last ? 0 : O_DIRECTORY));
    const int error = errno;
    if (folder != root_fd) close(folder);
    errno = error;
    if (fd < 0) return -1;
    folder = fd;
  }
  return folder == root_fd ? openat(root_fd, ".", kOpenFlags | O_DIRECTORY) : folder;
}

// Opens `path` below `root_fd`; links that stay below it are followed. Errors as of open(2); EXDEV: it leads
// outside.
int OpenBeneath(int root_fd, const std::string& path) {
  open_how how = {};
  how.flags = kOpenFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  const long fd = syscall(SYS_openat2, root_fd, path.empty() ? "." : path.c_str(), &how, sizeof(how));
  // Older kernels, and containers whose filter does not know the call.
  if (fd < 0 && (errno == ENOSYS || errno == EPERM)) return OpenWithoutLinks(root_fd, path);
  return static_cast<int>(fd);
}

absl::Status CheckPath(const std::string& path) {
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("path \"", absl::CEscape(path.substr(0, 256)), "\" ", why,
                                                   ": give one relative to the job's folder"));
  };
  if (path.size() > kMaxPath) return refuse("is too long");
  if (absl::StartsWith(path, "/")) return refuse("is absolute");
  if (absl::StrContains(path, '\0')) return refuse("holds a NUL byte");
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (part == "..") return refuse("holds \"..\"");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> FolderName(v1::JobFolder folder) {
  if (folder == v1::JOB_FOLDER_SHARE) return std::string(kShareFolder);
  if (folder == v1::JOB_FOLDER_CHECKPOINT) return std::string(kCheckpointFolder);
  return absl::InvalidArgumentError("folder is not set: give JOB_FOLDER_SHARE or JOB_FOLDER_CHECKPOINT");
}

absl::Status OpenError(int error, const std::string& path) {
  if (error == EXDEV || error == ELOOP) {
    return absl::InvalidArgumentError(
        absl::StrCat("path \"", path, "\" leads outside the job's folder by a symbolic link"));
  }
  if (error == ENOENT || error == ENOTDIR)
    return absl::NotFoundError(absl::StrCat("no such file: \"", path, "\""));
  return ErrnoStatus(error, absl::StrCat("open \"", path, "\""));
}

}  // namespace

absl::StatusOr<std::unique_ptr<JobFileReader>> JobFileReader::Open(const std::string& storage_folder,
                                                                   const v1::ReadJobFilesRequest& request) {
  absl::Status status = CheckJobNames(request.namespace_(), request.job(), request.job_uid());
  if (!status.ok()) return status;
  if (status = CheckPath(request.path()); !status.ok()) return status;
  const absl::StatusOr<std::string> folder = FolderName(request.folder());
  if (!folder.ok()) return folder.status();

  const int storage_fd = open(storage_folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (storage_fd < 0) return ErrnoStatus(errno, "open the storage folder");
  const std::string job_folder =
      absl::StrCat(JobFolderName(request.namespace_(), request.job(), request.job_uid()), "/", *folder);
  const int root_fd = OpenWithoutLinks(storage_fd, job_folder);
  const int error = errno;
  close(storage_fd);
  if (root_fd < 0 && error == ENOENT) {
    return absl::NotFoundError(absl::StrCat("job \"", request.namespace_(), "/", request.job(), "\" has no ",
                                            *folder, " folder here: it never ran, or was deleted"));
  }
  if (root_fd < 0) return OpenError(error, job_folder);
  std::string path = request.path();
  while (absl::EndsWith(path, "/")) path.pop_back();
  if (path == ".") path.clear();
  return std::unique_ptr<JobFileReader>(new JobFileReader(root_fd, std::move(path), /*required=*/true));
}

JobFileReader::~JobFileReader() {
  if (file_fd_ >= 0) close(file_fd_);
  close(root_fd_);
}

absl::StatusOr<std::optional<v1::FileChunk>> JobFileReader::Next() {
  if (file_fd_ >= 0) {
    absl::StatusOr<v1::FileChunk> chunk = ReadChunk();
    if (!chunk.ok()) return chunk.status();
    // Shorter than it was when it was opened: go on with the next file.
    if (!chunk->data().empty()) return std::optional<v1::FileChunk>(*std::move(chunk));
  }
  while (!waiting_.empty()) {
    const Waiting next = std::move(waiting_.back());
    waiting_.pop_back();
    absl::StatusOr<std::optional<v1::FileChunk>> chunk = OpenNext(next);
    if (!chunk.ok() || chunk->has_value()) return chunk;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<v1::FileChunk>> JobFileReader::OpenNext(const Waiting& next) {
  const int fd = OpenBeneath(root_fd_, next.path);
  if (fd < 0) {
    // What a folder listed may be gone, be a link that leads outside, or belong to somebody else.
    if (next.required) return OpenError(errno, next.path);
    return std::nullopt;
  }
  struct stat info = {};
  struct stat root = {};
  // Where jobs have users of their own, the worker may read more than they: a hard link in the job's folder
  // does not make a file the job's.
  if (fstat(fd, &info) != 0 || fstat(root_fd_, &root) != 0 ||
      (root.st_uid != geteuid() && info.st_uid != root.st_uid)) {
    close(fd);
    if (!next.required) return std::nullopt;
    return absl::PermissionDeniedError(
        absl::StrCat("path \"", next.path, "\" does not belong to the job's user"));
  }
  v1::FileChunk chunk;
  chunk.set_path(next.path);
  chunk.set_mode(info.st_mode & 07777);
  if (S_ISDIR(info.st_mode)) {
    const absl::Status status = AddChildren(fd, next.path);
    if (!status.ok()) return status;
    if (next.path.empty()) return std::nullopt;
    chunk.set_directory(true);
    return std::optional<v1::FileChunk>(std::move(chunk));
  }
  if (!S_ISREG(info.st_mode)) {
    close(fd);
    if (next.required) {
      return absl::InvalidArgumentError(absl::StrCat("path \"", next.path, "\" is neither file nor folder"));
    }
    return std::nullopt;
  }
  chunk.set_size(info.st_size);
  file_fd_ = fd;
  file_ = chunk;
  if (info.st_size == 0) {
    close(file_fd_);
    file_fd_ = -1;
    return std::optional<v1::FileChunk>(std::move(chunk));
  }
  absl::StatusOr<v1::FileChunk> first = ReadChunk();
  if (!first.ok()) return first.status();
  return std::optional<v1::FileChunk>(*std::move(first));
}

absl::StatusOr<v1::FileChunk> JobFileReader::ReadChunk() {
  v1::FileChunk chunk = file_;
  const int64_t left = file_.size() - file_.offset();
  std::string data(std::min<int64_t>(left, kMaxChunkBytes), '\0');
  ssize_t count;
  do {
    count = pread(file_fd_, data.data(), data.size(), file_.offset());
  } while (count < 0 && errno == EINTR);
  if (count < 0) return ErrnoStatus(errno, absl::StrCat("read \"", file_.path(), "\""));
  data.resize(count);
  chunk.set_data(std::move(data));
  file_.set_offset(file_.offset() + count);
  if (count == 0 || file_.offset() >= file_.size()) {
    close(file_fd_);
    file_fd_ = -1;
  }
  return chunk;
}

absl::Status JobFileReader::AddChildren(int folder_fd, const std::string& path) {
  DIR* folder = fdopendir(folder_fd);
  if (folder == nullptr) {
    const int error = errno;
    close(folder_fd);
    return ErrnoStatus(error, absl::StrCat("list \"", path, "\""));
  }
  std::vector<std::string> names;
  while (const dirent* entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat info = {};
    struct stat target = {};
    if (fstatat(folder_fd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    // Links to folders would give the same files twice, or for ever.
    if (S_ISLNK(info.st_mode) && fstatat(folder_fd, name.c_str(), &target, 0) == 0 && S_ISDIR(target.st_mode))
      continue;
    names.push_back(name);
  }
  closedir(folder);
  // The next is taken from the back.
  std::sort(names.rbegin(), names.rend());
  for (const std::string& name : names) {
    waiting_.push_back({path.empty() ? name : absl::StrCat(path, "/", name), /*required=*/false});
  }
  return absl::OkStatus();
}

}  // namespace adaptdl::worker
