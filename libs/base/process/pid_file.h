// Files that say who a process is, "<pid> <start time>", for those who come later.
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_LIBS_BASE_PROCESS_PID_FILE_H_
#define ADAPTDL_LIBS_BASE_PROCESS_PID_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/base/process/process_identity.h"

namespace adaptdl {

// NOT_FOUND: there is no such file. DATA_LOSS: it holds nothing of the kind.
absl::StatusOr<ProcessIdentity> ReadPidFile(const std::string& path);

// Replaces the file in one go.
absl::Status WritePidFile(const std::string& path, const ProcessIdentity& process);

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_PROCESS_PID_FILE_H_
