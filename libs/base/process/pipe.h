// A pipe whose ends close themselves, and go on into no program (close-on-exec).
//
// Thread-safety: as that of two ints.

#ifndef ADAPTDL_LIBS_BASE_PROCESS_PIPE_H_
#define ADAPTDL_LIBS_BASE_PROCESS_PIPE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/base/unique_fd.h"

namespace adaptdl {

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;

  static absl::StatusOr<Pipe> Open();
};

// As read(2), begun again after signals. May be called between fork and exec.
ssize_t ReadSome(int fd, void* buffer, size_t size);

absl::Status SetNonBlocking(int fd);

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_PROCESS_PIPE_H_
