// The shim of one replica: starts the process, keeps its output, ends it, and leaves a record of how it
// ended. It outlives the worker that started it, so that a restarted worker finds everything again.
//
//   started ──▶ running ──(stop command, SIGTERM, or no worker for too long)──▶ stopping ──▶ ended
//      │           └──────────────(the process exits by itself)──────────────────────────────▲
//      └──────────────────────────(it can't be started)──────────────────────────────────────┘
//
// running → stopping: SIGTERM to the process group, SIGKILL after the grace period. When the process has
// exited, the rest of its group goes: at once if nobody asked it to stop, else at the end of the grace period
// at the latest.
//
// For a single-threaded program of its own (adaptdl-shim); it changes signal handling of the whole process.

#ifndef ADAPTDL_SERVICES_WORKER_SHIM_SHIM_H_
#define ADAPTDL_SERVICES_WORKER_SHIM_SHIM_H_

#include <cstdint>

#include "absl/time/time.h"
#include "libs/base/clock.h"

namespace adaptdl::worker {

struct ShimOptions {
  // Inherited: the locked lock file, held open for life.
  int lock_fd = -1;
  // Inherited: the connection to the worker that started it. -1: none.
  int control_fd = -1;
  // The replica is stopped when no worker was connected for this long.
  absl::Duration orphan_timeout = absl::Seconds(60);
  // The log is rotated at this size, in bytes, and has so many files.
  int64_t log_file_bytes = int64_t{10} << 20;
  int log_files = 5;
  // How long to wait for the rest of the output when all processes have ended, and for processes that SIGKILL
  // does not end.
  absl::Duration drain_timeout = absl::Seconds(2);
};

// Runs the replica whose folder is the current directory. Returns the shim's own exit code: 0 once exit.json
// is written.
int RunShim(const ShimOptions& options, const Clock& clock);

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_SHIM_SHIM_H_
