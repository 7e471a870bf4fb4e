// Helpers of the worker's tests: folders that go away, and waiting for what other processes do without
// sleeping.

#ifndef ADAPTDL_TESTS_SERVICES_WORKER_TESTING_H_
#define ADAPTDL_TESTS_SERVICES_WORKER_TESTING_H_

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace adaptdl::worker {

// Far longer than anything takes, so that only a hang reaches it.
inline constexpr absl::Duration kDeadline = absl::Seconds(40);

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "adaptdl-worker-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline void WriteFile(const std::string& path, absl::string_view content) {
  std::ofstream(path, std::ios::binary) << content;
}

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

// Whether `predicate` came true; it is looked at again whenever something in `folder` changes.
inline bool WaitForChange(const std::string& folder, const std::function<bool()>& predicate) {
  const int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  inotify_add_watch(fd, folder.c_str(),
                    IN_CREATE | IN_MODIFY | IN_MOVED_TO | IN_DELETE | IN_CLOSE_WRITE | IN_DELETE_SELF);
  const absl::Time deadline = absl::Now() + kDeadline;
  bool met;
  while (!(met = predicate()) && absl::Now() < deadline) {
    pollfd item = {fd, POLLIN, 0};
    poll(&item, 1, static_cast<int>(absl::ToInt64Milliseconds(deadline - absl::Now())));
    char events[4096];
    while (read(fd, events, sizeof(events)) > 0) {
    }
  }
  close(fd);
  return met;
}

inline bool WaitForFile(const std::string& path) {
  return WaitForChange(std::filesystem::path(path).parent_path().string(),
                       [&] { return std::filesystem::exists(path); });
}

// Whether the process has ended (or is a zombie) by the deadline.
inline bool WaitForProcessEnd(pid_t pid) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return errno == ESRCH;
  pollfd item = {fd, POLLIN, 0};
  const int ready = poll(&item, 1, static_cast<int>(absl::ToInt64Milliseconds(kDeadline)));
  close(fd);
  return ready == 1;
}

}  // namespace adaptdl::worker

#endif  // ADAPTDL_TESTS_SERVICES_WORKER_TESTING_H_
