// Archives of folders, as anybody may have made them: whatever comes, nothing is written outside of the folder, no link leads
// out of it, no file has more rights than it should, and there is no more than the limits allow.

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/archive/paths.h"
#include "libs/archive/unpack.h"
#include "libs/base/unique_fd.h"

namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxBytes = 1 << 20;
constexpr int64_t kMaxFiles = 200;

const std::string& Place() {
  static const std::string place = [] {
    std::string pattern = (fs::temp_directory_path() / "adaptdl-unpack-XXXXXX").string();
    return std::string(mkdtemp(pattern.data()));
  }();
  return place;
}

void Require(bool holds) {
  if (!holds) abort();
}

// What is in the folder is as it must be.
void CheckFolder(const std::string& folder) {
  int64_t bytes = 0;
  int64_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    struct stat info = {};
    Require(lstat(entry.path().c_str(), &info) == 0);
    Require(++count <= kMaxFiles);
    const std::string path = entry.path().string().substr(folder.size() + 1);
    if (S_ISLNK(info.st_mode)) {
      Require(adaptdl::archive::WrongWithLink(path, fs::read_symlink(entry.path()).string()).empty());
      continue;
    }
    Require(S_ISREG(info.st_mode) || S_ISDIR(info.st_mode));
    Require((info.st_mode & 07022) == 0 && (!S_ISREG(info.st_mode) || info.st_nlink == 1));
    if (S_ISREG(info.st_mode)) bytes += info.st_size;
  }
  // The piece that goes beyond is not written.
  Require(bytes <= kMaxBytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const adaptdl::UniqueFd file(memfd_create("archive", MFD_CLOEXEC));
  Require(file.valid() && write(file.get(), data, size) == static_cast<ssize_t>(size));
  const std::string folder = Place() + "/folder";
  fs::create_directory(folder);
  const absl::Status status = adaptdl::archive::UnpackArchive(
      absl::StrCat("/proc/self/fd/", file.get()), folder, {.max_bytes = kMaxBytes, .max_files = kMaxFiles});
  CheckFolder(folder);
  // Nothing lies beside it.
  Require(std::distance(fs::directory_iterator(Place()), fs::directory_iterator()) == 1);
  fs::remove_all(folder);
  (void)status;
  return 0;
}
