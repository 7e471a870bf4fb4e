// Puts a backup (JobStore::Backup()) in place of the state of a supervisor that does not run.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_RESTORE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_RESTORE_H_

#include <string>

#include "absl/status/statusor.h"
#include "services/supervisor/store/offline.h"

namespace adaptdl::supervisor {

struct Restored {
  // What was restored.
  StoreReport state;
  // What the state was before, kept under this name. Empty: there was none.
  std::string kept;
};

// `backup` is checked first, and only read. `folder` is the supervisor's --state-dir, made if it does not
// exist. Text in the backup that is no UTF-8 is mended in what is restored. A crash leaves the old state or
// the new one there. The state of now is kept beside it, whatever it is worth: a damaged one can be replaced.
//
// DATA_LOSS: the backup is damaged, or no backup. FAILED_PRECONDITION: it is of a newer version, or a
// supervisor is using the folder. ALREADY_EXISTS: there is a state and `replace` is false.
absl::StatusOr<Restored> RestoreStore(const std::string& backup, const std::string& folder, bool replace,
                                      const Clock& clock);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_RESTORE_H_
