#include "libs/base/process/pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "libs/base/file.h"

namespace adaptdl {

absl::StatusOr<Pipe> Pipe::Open() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

ssize_t ReadSome(int fd, void* buffer, size_t size) {
  ssize_t count;
  do {
    count = read(fd, buffer, size);
  } while (count < 0 && errno == EINTR);
  return count;
}

absl::Status SetNonBlocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) return ErrnoStatus(errno, "set O_NONBLOCK");
  return absl::OkStatus();
}

}  // namespace adaptdl
