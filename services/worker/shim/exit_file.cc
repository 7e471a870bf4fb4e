#include "services/worker/shim/exit_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/base/file.h"

namespace adaptdl::worker {
namespace {

constexpr int kReservedBytes = 4096;

}  // namespace

ExitFile::ExitFile(const std::string& folder)
    : folder_(folder), reserved_path_(absl::StrCat(folder, "/", kExitFile, ".reserved")) {
  fd_ = open(reserved_path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
  if (fd_ < 0) return;
  // Written, not only allocated: file systems with delayed allocation would promise what they don't have.
  const std::string filler(kReservedBytes, ' ');
  if (write(fd_, filler.data(), filler.size()) == kReservedBytes) fsync(fd_);
}

ExitFile::~ExitFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(reserved_path_.c_str());
}

absl::Status ExitFile::Write(const ExitRecord& record) {
  const std::string path = absl::StrCat(folder_, "/", kExitFile);
  ExitRecord shortened = record;
  if (shortened.message.size() > kReservedBytes / 2) shortened.message.resize(kReservedBytes / 2);
  const std::string content = ExitRecordToJson(shortened) + "\n";
  if (fd_ < 0) return WriteFileAtomically(path, content, 0640);
  if (pwrite(fd_, content.data(), content.size(), 0) != static_cast<ssize_t>(content.size()) ||
      ftruncate(fd_, content.size()) != 0 || fsync(fd_) != 0 ||
      rename(reserved_path_.c_str(), path.c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat("write ", path));
  }
  const int folder = open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    fsync(folder);
    close(folder);
  }
  return absl::OkStatus();
}

}  // namespace adaptdl::worker
