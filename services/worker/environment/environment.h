// Virtual environments of Python: each is made once in its folder, beside those that are there, and seen by
// others when it is whole.
//
//   <folder>/requirements.txt    written by the worker before
//   <folder>/lock                held (flock) by whoever makes an environment; made by the worker
//   <folder>/<version>           symbolic link to the environment for this version of Python: it is whole
//   <folder>/made-<random>       an environment; one that no link points to is being made, or was left half-made
//
// An environment is never moved, as its programs name their own folder: what is renamed is the link.
//
// Thread-safe, also between processes.

#ifndef ADAPTDL_SERVICES_WORKER_ENVIRONMENT_ENVIRONMENT_H_
#define ADAPTDL_SERVICES_WORKER_ENVIRONMENT_ENVIRONMENT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"

namespace adaptdl::worker {

inline constexpr char kRequirementsFile[] = "requirements.txt";
inline constexpr char kEnvironmentLock[] = "lock";
inline constexpr char kEnvironmentPrefix[] = "made-";

struct EnvironmentOptions {
  // Absolute; for this interpreter, these requirements and all else that environments differ in, but for the
  // version of Python.
  std::string folder;
  // Makes the environment; looked for in PATH when it holds no slash.
  std::string interpreter = "python3";
  // Whether there is something for pip to do.
  bool install = false;
  // Folder of a Python package that is added for programs to import, behind what was installed. Empty: none.
  std::string library = {};
  // For all steps together, waiting for another process that makes the same one included.
  absl::Duration timeout = absl::Minutes(8);
  // Largest size of one environment. 0: no bound.
  int64_t max_bytes = 0;
  // Where the output of pip goes. -1: nowhere.
  int output_fd = -1;
};

// The folder of the environment, made now unless it is there. Errors are for people, and hold the last lines
// of what failed.
absl::StatusOr<std::string> ProvideEnvironment(const EnvironmentOptions& options, const Clock& clock);

// Bytes of all files beneath, links not followed.
int64_t BytesBeneath(const std::string& folder);

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_ENVIRONMENT_ENVIRONMENT_H_
