#include "libs/archive/pack.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/archive/digest.h"
#include "libs/archive/tar.h"
#include "libs/base/file.h"
#include "libs/base/unique_fd.h"

namespace adaptdl::archive {
namespace {

constexpr int64_t kPieceBytes = 1 << 20;

// Where the archive goes, and what is known of it.
struct Output {
  int fd = -1;
  Digester digester = {};
  int64_t size = 0;
  int error = 0;
};

la_ssize_t WriteTo(::archive* /*handle*/, void* data, const void* buffer, size_t size) {
  Output& output = *static_cast<Output*>(data);
  const auto* bytes = static_cast<const char*>(buffer);
  ssize_t written = -1;
  do {
    written = write(output.fd, bytes, size);
  } while (written < 0 && errno == EINTR);
  if (written < 0) {
    output.error = errno;
    return -1;
  }
  output.digester.Add(absl::string_view(bytes, static_cast<size_t>(written)));
  output.size += written;
  return written;
}

class Packer {
 public:
  Packer(const std::string& folder, int fd, const std::function<void(int64_t)>& progress)
      : folder_(folder), progress_(progress), output_{.fd = fd}, writer_(archive_write_new()) {}

  absl::StatusOr<Packed> Run(const FolderContents& contents) {
    ::archive* tar = writer_.get();
    // One thread, and always the same level: more threads or another level give other bytes.
    const bool begun = archive_write_set_format_gnutar(tar) == ARCHIVE_OK &&
                       archive_write_add_filter_zstd(tar) == ARCHIVE_OK &&
                       archive_write_set_options(tar, "zstd:compression-level=3") == ARCHIVE_OK &&
                       archive_write_set_bytes_in_last_block(tar, 1) == ARCHIVE_OK &&
                       archive_write_open(tar, &output_, nullptr, WriteTo, nullptr) == ARCHIVE_OK;
    if (!begun) return Failure("begin the archive");
    for (const FolderEntry& entry : contents.entries) {
      if (absl::Status status = Add(entry); !status.ok()) return status;
    }
    if (archive_write_close(tar) != ARCHIVE_OK) return Failure("end the archive");
    return Packed{.digest = output_.digester.Finish(), .size = output_.size};
  }

 private:
  absl::Status Failure(absl::string_view what) {
    if (output_.error != 0) return ErrnoStatus(output_.error, absl::StrCat(what, ": write the archive"));
    return absl::InternalError(absl::StrCat(what, ": ", TarError(writer_.get())));
  }

  absl::Status Add(const FolderEntry& entry) {
    const TarEntry header(archive_entry_new());
    archive_entry_copy_pathname(header.get(), entry.path.c_str());
    archive_entry_set_mtime(header.get(), 0, 0);
    switch (entry.kind) {
      case FolderEntry::Kind::kFolder:
        archive_entry_set_filetype(header.get(), AE_IFDIR);
        archive_entry_set_perm(header.get(), 0755);
        break;
      case FolderEntry::Kind::kLink:
        archive_entry_set_filetype(header.get(), AE_IFLNK);
        archive_entry_set_perm(header.get(), 0777);
        archive_entry_copy_symlink(header.get(), entry.target.c_str());
        break;
      case FolderEntry::Kind::kFile:
        archive_entry_set_filetype(header.get(), AE_IFREG);
        archive_entry_set_perm(header.get(), entry.executable ? 0755 : 0644);
        archive_entry_set_size(header.get(), entry.size);
    }
    if (archive_write_header(writer_.get(), header.get()) != ARCHIVE_OK) return Failure(entry.path);
    return entry.kind == FolderEntry::Kind::kFile ? AddContent(entry) : absl::OkStatus();
  }

  absl::Status AddContent(const FolderEntry& entry) {
    const std::string path = absl::StrCat(folder_, "/", entry.path);
    const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file.valid()) return ErrnoStatus(errno, path);
    // One byte more, to see that there is none.
    for (int64_t left = entry.size; left >= 0;) {
      const size_t wanted = static_cast<size_t>(std::clamp<int64_t>(left, 1, kPieceBytes));
      const ssize_t size = read(file.get(), buffer_.data(), wanted);
      if (size < 0 && errno == EINTR) continue;
      if (size < 0) return ErrnoStatus(errno, path);
      if (size == 0 && left == 0) return absl::OkStatus();
      if (size == 0 || size > left) break;
      if (archive_write_data(writer_.get(), buffer_.data(), static_cast<size_t>(size)) != size) {
        return Failure(entry.path);
      }
      left -= size;
      packed_ += size;
      if (progress_) progress_(packed_);
    }
    return absl::AbortedError(
        absl::StrCat(path, " has changed while it was packed: submit again when it rests"));
  }

  const std::string& folder_;
  const std::function<void(int64_t)>& progress_;
  Output output_;
  const TarWriter writer_;
  std::string buffer_ = std::string(kPieceBytes, '\0');
  int64_t packed_ = 0;
};

}  // namespace

absl::StatusOr<Packed> PackFolder(const std::string& folder, const FolderContents& contents, int fd,
                                  const std::function<void(int64_t bytes)>& progress) {
  return Packer(folder, fd, progress).Run(contents);
}

}  // namespace adaptdl::archive
