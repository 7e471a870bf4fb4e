// Puts a backup (JobStore::Backup()) in place of the state of a supervisor that does not run.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_RESTORE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_RESTORE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace adaptdl::supervisor {

struct Restored {
  int64_t jobs = 0;
  int64_t nodes = 0;
  // What the state was before, kept under this name. Empty: there was none.
  std::string kept;
};

// `backup` is checked first, and only read. `folder` is the supervisor's --state-dir, made if it does not
// exist; a crash leaves the old state or the new one there. The state of now is kept beside it, whatever it
// is worth: a damaged one can be replaced.
//
// DATA_LOSS: the backup is damaged, or no backup. FAILED_PRECONDITION: it is of a newer version, or a
// supervisor is using the folder. ALREADY_EXISTS: there is a state and `replace` is false.
absl::StatusOr<Restored> RestoreStore(const std::string& backup, const std::string& folder, bool replace);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_RESTORE_H_
