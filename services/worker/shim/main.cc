// adaptdl-shim: runs one replica for a worker. Not for people; see docs/worker.md.
//
//   adaptdl-shim FOLDER --lock-fd N --control-fd N --orphan-timeout D --log-file-bytes N --log-files N

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "services/worker/shim/shim.h"

namespace {

using adaptdl::worker::ShimOptions;

bool ParseFlag(const std::string& flag, const std::string& value, ShimOptions* options) {
  if (flag == "--lock-fd") return absl::SimpleAtoi(value, &options->lock_fd);
  if (flag == "--control-fd") return absl::SimpleAtoi(value, &options->control_fd);
  if (flag == "--orphan-timeout") return absl::ParseDuration(value, &options->orphan_timeout);
  if (flag == "--log-file-bytes") return absl::SimpleAtoi(value, &options->log_file_bytes);
  if (flag == "--log-files") return absl::SimpleAtoi(value, &options->log_files);
  return false;
}

// Leaves the worker's terminal, session and standard files behind.
bool Detach() {
  const pid_t pid = fork();
  if (pid < 0) return false;
  if (pid > 0) _exit(0);
  setsid();
  const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  int log_fd = open("shim.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  if (log_fd < 0) log_fd = null_fd;
  dup2(null_fd, STDIN_FILENO);
  dup2(log_fd, STDOUT_FILENO);
  dup2(log_fd, STDERR_FILENO);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  ShimOptions options;
  bool valid = argc >= 2 && argc % 2 == 0;
  for (int i = 2; valid && i + 1 < argc; i += 2) valid = ParseFlag(argv[i], argv[i + 1], &options);
  if (!valid) {
    fprintf(stderr,
            "usage: %s FOLDER [--lock-fd N] [--control-fd N] [--orphan-timeout 60s] "
            "[--log-file-bytes N] [--log-files N]\nIt is started by adaptdl-worker.\n",
            argv[0]);
    return 2;
  }
  if (chdir(argv[1]) != 0) {
    fprintf(stderr, "adaptdl-shim: can't enter %s: %s\n", argv[1], strerror(errno));
    return 1;
  }
  // The replica must not hold the lock.
  if (options.lock_fd >= 0) fcntl(options.lock_fd, F_SETFD, FD_CLOEXEC);
  if (!Detach()) {
    fprintf(stderr, "adaptdl-shim: can't fork: %s\n", strerror(errno));
    return 1;
  }
  return adaptdl::worker::RunShim(options, adaptdl::RealClock());
}
