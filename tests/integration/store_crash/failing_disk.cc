// Preloaded into a program, makes some of its writes below a folder fail, as those to a disk that is broken
// or full do:
//
//   env LD_PRELOAD=libfailing_disk.so FAILING_DISK_FOLDER=/state FAILING_DISK_PER_MILLE=20 program
//
// Of a thousand calls that write to a file there, bring it to the disk, or give it a name, so many do nothing
// and fail, with EIO or ENOSPC in turns. While the file FAILING_DISK_FULL is there, all writes fail, with
// ENOSPC.

#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

struct Settings {
  std::string folder;
  uint64_t per_mille = 0;
  std::string full;
};

const Settings& GetSettings() {
  static const Settings settings = [] {
    const char* folder = std::getenv("FAILING_DISK_FOLDER");
    const char* rate = std::getenv("FAILING_DISK_PER_MILLE");
    Settings read;
    if (folder != nullptr) read.folder = folder;
    if (const char* full = std::getenv("FAILING_DISK_FULL")) read.full = full;
    if (rate != nullptr) read.per_mille = std::strtoull(rate, nullptr, 10);
    return read;
  }();
  return settings;
}

bool IsBelowFolder(const std::string& path) {
  const std::string& folder = GetSettings().folder;
  return !folder.empty() && path.compare(0, folder.size(), folder) == 0;
}

std::string PathOf(int file) {
  if (GetSettings().folder.empty()) return "";
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  const ssize_t length = readlink(link.c_str(), path, sizeof(path));
  return length > 0 ? std::string(path, length) : "";
}

// Whether the call on the file is to fail; sets errno.
bool Fails(const std::string& path, bool writes) {
  static std::atomic<uint64_t> calls{static_cast<uint64_t>(getpid())};
  if (!IsBelowFolder(path)) return false;
  if (writes && !GetSettings().full.empty() && access(GetSettings().full.c_str(), F_OK) == 0) {
    errno = ENOSPC;
    return true;
  }
  uint64_t number = ++calls;
  uint64_t hash = number * 0x9E3779B97F4A7C15;
  hash ^= hash >> 32;
  if (hash % 1000 >= GetSettings().per_mille) return false;
  errno = number % 2 == 0 ? EIO : ENOSPC;
  return true;
}

bool Fails(int file, bool writes = true) { return Fails(PathOf(file), writes); }

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): these names are the system's.
extern "C" {

ssize_t write(int file, const void* bytes, size_t count) {
  static const auto next = Next<ssize_t (*)(int, const void*, size_t)>("write");
  return Fails(file) ? -1 : next(file, bytes, count);
}

ssize_t pwrite(int file, const void* bytes, size_t count, off_t offset) {
  static const auto next = Next<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  return Fails(file) ? -1 : next(file, bytes, count, offset);
}

ssize_t pwrite64(int file, const void* bytes, size_t count, off64_t offset) {
  static const auto next = Next<ssize_t (*)(int, const void*, size_t, off64_t)>("pwrite64");
  return Fails(file) ? -1 : next(file, bytes, count, offset);
}

int fsync(int file) {
  static const auto next = Next<int (*)(int)>("fsync");
  return Fails(file, /*writes=*/false) ? -1 : next(file);
}

int fdatasync(int file) {
  static const auto next = Next<int (*)(int)>("fdatasync");
  return Fails(file, /*writes=*/false) ? -1 : next(file);
}

int rename(const char* from, const char* to) {
  static const auto next = Next<int (*)(const char*, const char*)>("rename");
  return Fails(to, /*writes=*/false) ? -1 : next(from, to);
}

int link(const char* from, const char* to) {
  static const auto next = Next<int (*)(const char*, const char*)>("link");
  return Fails(to, /*writes=*/false) ? -1 : next(from, to);
}

int ftruncate64(int file, off64_t length) {
  static const auto next = Next<int (*)(int, off64_t)>("ftruncate64");
  return Fails(file) ? -1 : next(file, length);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
