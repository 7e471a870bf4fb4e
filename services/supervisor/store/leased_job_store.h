// Opens the state of a new leader, also while the one before is stopped and still holds the database.
//
// SQLite's lock belongs to a process and does not end with a lease. If the database is locked by a leader
// whose lease has ended, a copy of it, made without a lock, is the state from then on, under a name that was
// never used before: the old process may write to its own file, or remove what is called like its log, and
// harms nobody. Everything that it has acknowledged is in the copy (FencedJobStore).

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_LEASED_JOB_STORE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_LEASED_JOB_STORE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/supervisor/lease/file_lease.h"
#include "services/supervisor/store/sqlite_job_store.h"

namespace adaptdl::supervisor {

// Opens the database that `lease`, which is held, names; names the copy in it if one had to be made. Errors
// are those of SqliteJobStore::Open(). UNAVAILABLE: locked by a process that is no former leader, or that
// works on.
absl::StatusOr<std::unique_ptr<SqliteJobStore>> OpenLeasedStore(const SqliteJobStoreOptions& options,
                                                                FileLease* lease);

// Copies the database at `from` with its log, which another process has open, to a new file `to`, synced.
// ABORTED: that process wrote meanwhile; nothing is left of the copy. This process must not have `from` open:
// its locks would end with the first descriptor that is closed.
absl::Status CopyOpenDatabase(const std::string& from, const std::string& to);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_LEASED_JOB_STORE_H_
