// A process, told from another one that is given its pid later.
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_LIBS_BASE_PROCESS_PROCESS_IDENTITY_H_
#define ADAPTDL_LIBS_BASE_PROCESS_PROCESS_IDENTITY_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl {

struct ProcessIdentity {
  pid_t pid = 0;
  // Clock ticks between the machine's start and the process's: another process of this pid has another one.
  uint64_t start_time = 0;

  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

// "<pid> <start time>\n", and back. DATA_LOSS: the text is nothing of the kind.
std::string FormatIdentity(const ProcessIdentity& identity);
absl::StatusOr<ProcessIdentity> ParseIdentity(absl::string_view text);

// Who has this pid now. NOT_FOUND: nobody, or a zombie.
absl::StatusOr<ProcessIdentity> IdentifyProcess(pid_t pid);

// Whether this very process runs; a zombie does not. Reaps it if it is an ended child of ours.
bool IsAlive(const ProcessIdentity& identity);

// Sends `signal` to this very process. NOT_FOUND: it has ended.
absl::Status SignalProcess(const ProcessIdentity& identity, int signal);

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_PROCESS_PROCESS_IDENTITY_H_
