// Preloaded into a program, makes some of its calls hang, as those to a file system do whose server is gone:
//
//   env LD_PRELOAD=libhanging_disk.so HANGING_DISK_FOLDER=/storage HANGING_DISK_GATE=/gate program
//
// While there is a FIFO of that name in the gate's folder, "mkdir", "open" or "fsync" below
// HANGING_DISK_FOLDER hang, and "fork" does for any program. Who hangs makes the file "<call>.hangs"
// there, and goes on when somebody opens the FIFO for writing. While there is a file "<call>.fails", "mkdir"
// and "open" fail with EIO.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <string>

namespace {

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

using Open = int (*)(const char*, int, ...);

const std::string& Setting(const char* name) {
  const auto read = [](const char* variable) {
    const char* value = std::getenv(variable);
    return new std::string(value == nullptr ? "" : value);
  };
  static const std::string* const folder = read("HANGING_DISK_FOLDER");
  static const std::string* const gate = read("HANGING_DISK_GATE");
  return name[0] == 'f' ? *folder : *gate;
}

bool IsBelowFolder(const std::string& path) {
  const std::string& folder = Setting("folder");
  return !folder.empty() && path.compare(0, folder.size(), folder) == 0;
}

void MayHang(const std::string& call) {
  static const auto open_next = Next<Open>("open");
  const int saved = errno;
  const std::string fifo = Setting("gate") + "/" + call;
  if (access(fifo.c_str(), F_OK) == 0) {
    const int mark = open_next((fifo + ".hangs").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (mark >= 0) close(mark);
    const int door = open_next(fifo.c_str(), O_RDONLY | O_CLOEXEC);
    if (door >= 0) close(door);
  }
  errno = saved;
}

bool Fails(const std::string& call) {
  if (access((Setting("gate") + "/" + call + ".fails").c_str(), F_OK) != 0) return false;
  errno = EIO;
  return true;
}

int OpenSlowly(const char* name, const char* path, int flags, mode_t mode) {
  if (IsBelowFolder(path)) {
    MayHang("open");
    if (Fails("open")) return -1;
  }
  return Next<Open>(name)(path, flags, mode);
}

mode_t ModeOf(int flags, va_list rest) { return (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0; }

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): these names are the system's.
extern "C" {

int mkdir(const char* path, mode_t mode) {
  if (IsBelowFolder(path)) {
    MayHang("mkdir");
    if (Fails("mkdir")) return -1;
  }
  static const auto next = Next<int (*)(const char*, mode_t)>("mkdir");
  return next(path, mode);
}

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = ModeOf(flags, rest);
  va_end(rest);
  return OpenSlowly("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = ModeOf(flags, rest);
  va_end(rest);
  return OpenSlowly("open64", path, flags, mode);
}

int fsync(int file) {
  char path[4096];
  const ssize_t length = readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), path, sizeof(path));
  if (length > 0 && IsBelowFolder(std::string(path, length))) MayHang("fsync");
  static const auto next = Next<int (*)(int)>("fsync");
  return next(file);
}

pid_t fork() {
  MayHang("fork");
  static const auto next = Next<pid_t (*)()>("fork");
  return next();
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
