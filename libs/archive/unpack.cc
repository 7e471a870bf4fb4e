#include "libs/archive/unpack.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "libs/archive/paths.h"
#include "libs/archive/tar.h"
#include "libs/base/file.h"
#include "libs/base/unique_fd.h"

namespace adaptdl::archive {
namespace {

constexpr size_t kReadBytes = 1 << 20;
constexpr size_t kBlockBytes = 1 << 16;
constexpr mode_t kFolderMode = 0755;

class Unpacker {
 public:
  Unpacker(const UnpackOptions& options, UniqueFd root) : options_(options), root_(std::move(root)) {}

  absl::Status Run(int archive_fd) {
    ::archive* tar = reader_.get();
    if (archive_read_support_format_tar(tar) != ARCHIVE_OK ||
        archive_read_support_filter_zstd(tar) != ARCHIVE_OK ||
        // Of clients whose language has no other.
        archive_read_support_filter_gzip(tar) != ARCHIVE_OK ||
        archive_read_open_fd(tar, archive_fd, kBlockBytes) != ARCHIVE_OK) {
      return Broken();
    }
    ::archive_entry* entry = nullptr;
    while (true) {
      const int result = archive_read_next_header(tar, &entry);
      if (result == ARCHIVE_EOF) return absl::OkStatus();
      if (result != ARCHIVE_OK) return Broken();
      if (absl::Status status = Take(entry); !status.ok()) return status;
    }
  }

 private:
  absl::Status Broken() {
    return absl::InvalidArgumentError(absl::StrCat("the archive is broken: ", TarError(reader_.get())));
  }

  static absl::Status Refuse(const std::string& path, absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("the archive's entry \"", absl::CHexEscape(path.substr(0, 256)), "\" ", why));
  }

  absl::Status Take(::archive_entry* entry) {
    const char* name = archive_entry_pathname(entry);
    if (name == nullptr) return Refuse("", "has a name that can't be read");
    std::string path = name;
    const mode_t type = archive_entry_filetype(entry);
    if (type == AE_IFDIR && absl::EndsWith(path, "/")) path.pop_back();
    if (const std::string wrong = WrongWithPath(path); !wrong.empty()) return Refuse(path, wrong);
    if (archive_entry_hardlink(entry) != nullptr) return Refuse(path, "is a hard link");
    if (absl::Status status = Count(); !status.ok()) return status;
    if (absl::Status status = GoToFolderOf(path); !status.ok()) return status;
    const std::string last = path.substr(path.rfind('/') + 1);
    if (type == AE_IFDIR) return MakeFolder(parent().get(), last, path);
    if (type == AE_IFLNK) return MakeLink(entry, last, path);
    if (type == AE_IFREG) return MakeFile(entry, last, path);
    return Refuse(path, "is neither a file, a folder nor a symbolic link");
  }

  absl::Status Count() {
    if (++count_ <= options_.max_files) return absl::OkStatus();
    return absl::OutOfRangeError(
        absl::StrCat("the archive has more than ", options_.max_files, " files and folders"));
  }

  // Opens the folders of the path, which are made if need be, and keeps them open for the next one.
  absl::Status GoToFolderOf(const std::string& path) {
    std::vector<std::string> parts = absl::StrSplit(path, '/');
    parts.pop_back();
    size_t same = 0;
    while (same < parts.size() && same < open_.size() && parts[same] == open_[same].name) ++same;
    open_.resize(same);
    for (size_t i = same; i < parts.size(); ++i) {
      // A link in its place is refused, wherever it leads.
      int fd = OpenFolder(parts[i]);
      if (fd < 0 && errno == ENOENT) {
        if (absl::Status status = Count(); !status.ok()) return status;
        if (absl::Status status = MakeFolder(parent().get(), parts[i], path); !status.ok()) return status;
        fd = OpenFolder(parts[i]);
      }
      if (fd < 0 && (errno == ENOTDIR || errno == ELOOP)) return Refuse(path, "lies in what is no folder");
      if (fd < 0) return ErrnoStatus(errno, absl::StrCat("open the folder of ", path));
      open_.push_back({parts[i], UniqueFd(fd)});
    }
    return absl::OkStatus();
  }

  int OpenFolder(const std::string& name) {
    return openat(parent().get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  }

  const UniqueFd& parent() const { return open_.empty() ? root_ : open_.back().fd; }

  absl::Status MakeFolder(int folder, const std::string& name, const std::string& path) {
    if (mkdirat(folder, name.c_str(), kFolderMode) == 0) {
      // The umask is left aside.
      if (fchmodat(folder, name.c_str(), kFolderMode, 0) != 0) return ErrnoStatus(errno, path);
      return Give(folder, name, path);
    }
    struct stat info = {};
    const int error = errno;
    if (error != EEXIST) return ErrnoStatus(error, path);
    if (fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode)) {
      return absl::OkStatus();
    }
    return Refuse(path, "is there twice");
  }

  absl::Status MakeLink(::archive_entry* entry, const std::string& name, const std::string& path) {
    const char* target = archive_entry_symlink(entry);
    if (target == nullptr) return Refuse(path, "is a link with a target that can't be read");
    if (const std::string wrong = WrongWithLink(path, target); !wrong.empty()) return Refuse(path, wrong);
    if (symlinkat(target, parent().get(), name.c_str()) != 0) {
      return errno == EEXIST ? Refuse(path, "is there twice") : ErrnoStatus(errno, path);
    }
    return Give(parent().get(), name, path);
  }

  absl::Status MakeFile(::archive_entry* entry, const std::string& name, const std::string& path) {
    const UniqueFd file(
        openat(parent().get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.valid()) return errno == EEXIST ? Refuse(path, "is there twice") : ErrnoStatus(errno, path);
    if (absl::Status status = WriteContent(file.get(), path); !status.ok()) return status;
    if (options_.owner.has_value() && fchown(file.get(), options_.owner->uid, options_.owner->gid) != 0) {
      return ErrnoStatus(errno, absl::StrCat("give ", path, " to user ", options_.owner->uid));
    }
    // Last, as a change of the owner takes bits away. Nothing else of the archive's mode counts.
    const bool executable = (archive_entry_perm(entry) & S_IXUSR) != 0;
    return fchmod(file.get(), executable ? 0755 : 0644) == 0 ? absl::OkStatus() : ErrnoStatus(errno, path);
  }

  absl::Status WriteContent(int file, const std::string& path) {
    while (true) {
      // Holes of a sparse file come as zeros, and count.
      const la_ssize_t size = archive_read_data(reader_.get(), buffer_.data(), buffer_.size());
      if (size == 0) return absl::OkStatus();
      if (size < 0) return Broken();
      bytes_ += size;
      if (bytes_ > options_.max_bytes) {
        return absl::OutOfRangeError(
            absl::StrCat("the archive's files have more than ", options_.max_bytes, " bytes together"));
      }
      for (la_ssize_t done = 0; done < size;) {
        const ssize_t written = write(file, buffer_.data() + done, static_cast<size_t>(size - done));
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return ErrnoStatus(errno, absl::StrCat("write ", path));
        done += written;
      }
    }
  }

  absl::Status Give(int folder, const std::string& name, const std::string& path) {
    if (!options_.owner.has_value()) return absl::OkStatus();
    if (fchownat(folder, name.c_str(), options_.owner->uid, options_.owner->gid, AT_SYMLINK_NOFOLLOW) == 0) {
      return absl::OkStatus();
    }
    return ErrnoStatus(errno, absl::StrCat("give ", path, " to user ", options_.owner->uid));
  }

  struct OpenedFolder {
    std::string name;
    UniqueFd fd;
  };

  const UnpackOptions& options_;
  const UniqueFd root_;
  const TarReader reader_{archive_read_new()};
  // The folder of the last entry, and those above it, without the root.
  std::vector<OpenedFolder> open_;
  std::string buffer_ = std::string(kReadBytes, '\0');
  int64_t count_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace

absl::Status UnpackArchive(const std::string& archive, const std::string& folder,
                           const UnpackOptions& options) {
  const UniqueFd file(open(archive.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, archive);
  UniqueFd root(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!root.valid()) return ErrnoStatus(errno, folder);
  return Unpacker(options, std::move(root)).Run(file.get());
}

}  // namespace adaptdl::archive
