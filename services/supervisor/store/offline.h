// What is done to the state of a supervisor that does not run: finding out that it does not, and files that
// are replaced as a whole. Plain functions; each uses a folder alone.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_OFFLINE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_OFFLINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "services/supervisor/lease/file_lease.h"
#include "services/supervisor/store/job_store.h"

namespace adaptdl::supervisor {

// What a database holds.
struct StoreReport {
  int64_t jobs = 0;
  int64_t replicas = 0;
  int64_t events = 0;
  int64_t nodes = 0;
  int64_t quotas = 0;
  // Messages that could not be read as they were.
  std::vector<DamagedRow> damaged;
};

// What is done about damaged rows.
enum class Repair {
  kNothing,
  // Text that is no UTF-8 is mended.
  kMend,
  // That too, and rows that can't be read even so are removed.
  kRemove,
};

// Brings the database at `path` to the newest version, checks it, repairs it, and puts all of it into the one
// file. Errors call it `name`. DATA_LOSS: it is damaged beyond its rows, or no state of a supervisor.
absl::StatusOr<StoreReport> ExamineDatabase(const std::string& name, const std::string& path, Repair repair,
                                            absl::Time now);

// Takes the lease of its folder, so that no supervisor begins meanwhile, and one that is stopped finds out.
// FAILED_PRECONDITION: one works there.
absl::Status AwaitLease(const std::string& folder, const Clock& clock, FileLease* lease);

// FAILED_PRECONDITION: somebody has the database open. Brings what is in its log into the file.
absl::Status CheckUnused(const std::string& path);

// Gives the database of now a second name, and returns it. A log beside it is there only if it could not be
// opened.
absl::StatusOr<std::string> KeepAside(const std::string& path, absl::Time now);

// Brings a file or a folder to the disk.
absl::Status SyncPath(const std::string& path);

absl::Status RenameFile(const std::string& from, const std::string& to);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_OFFLINE_H_
