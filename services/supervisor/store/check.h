// Says what a state or a backup holds, row by row, and mends what it can.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_CHECK_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_CHECK_H_

#include <string>

#include "absl/status/statusor.h"
#include "services/supervisor/store/offline.h"

namespace adaptdl::supervisor {

struct CheckedStore {
  // With `repair`, what is there now; `damaged` is what was found.
  StoreReport state;
  // What was there before the repair, kept under this name. Empty: nothing was changed.
  std::string kept;
};

// `path`: the --state-dir of a supervisor that does not run, or a backup. Works on a copy beside it, which
// takes its place if something was repaired; a crash leaves the old one or the new one there.
//
// NOT_FOUND: there is no state. FAILED_PRECONDITION: a supervisor is using it, or it is of a newer version.
// DATA_LOSS: it is damaged beyond what can be read row by row.
absl::StatusOr<CheckedStore> CheckStore(const std::string& path, Repair repair, const Clock& clock);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_CHECK_H_
