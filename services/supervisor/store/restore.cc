#include "services/supervisor/store/restore.h"

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "libs/base/clock.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"
#include "services/supervisor/lease/file_lease.h"
#include "services/supervisor/store/offline.h"
#include "services/supervisor/store/sqlite.h"

namespace adaptdl::supervisor {
namespace {

namespace fs = std::filesystem;

}  // namespace

absl::StatusOr<Restored> RestoreStore(const std::string& backup, const std::string& folder, bool replace,
                                      const Clock& clock) {
  std::error_code error;
  if (!fs::is_regular_file(backup, error)) return absl::NotFoundError(absl::StrCat(backup, ": no such file"));
  const RealSteadyClock steady;
  FileLeaseOptions lease_options;
  lease_options.folder = folder;
  lease_options.address = "restore";
  const absl::StatusOr<std::unique_ptr<FileLease>> lease = FileLease::Create(lease_options, &steady, &clock);
  if (!lease.ok()) return lease.status();
  const std::string copy = absl::StrCat(folder, "/restore-", RandomHex(8), ".db");
  const auto remove = absl::MakeCleanup([&copy] { RemoveDatabase(copy); });
  fs::copy_file(backup, copy, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("copying ", backup, " to ", folder));
  // Not in the supervisor's way: what can be mended is, and a row that can't be read stays as it is.
  absl::StatusOr<StoreReport> report = ExamineDatabase(backup, copy, Repair::kMend, clock.Now());
  if (!report.ok()) return report.status();
  Restored restored;
  restored.state = *std::move(report);
  if (const absl::Status status = SyncPath(copy); !status.ok()) return status;
  if (const absl::Status status = AwaitLease(folder, clock, lease->get()); !status.ok()) return status;
  (*lease)->StartRenewal();
  const std::string path = absl::StrCat(folder, "/", (*lease)->database());
  if (fs::exists(path, error)) {
    if (const absl::Status status = CheckUnused(path); !status.ok()) return status;
    if (!replace) {
      return absl::AlreadyExistsError(absl::StrCat("--state-dir: there is a state in ", folder,
                                                   "; --replace puts the backup in its place"));
    }
    absl::StatusOr<std::string> kept = KeepAside(path, clock.Now());
    if (!kept.ok()) return kept.status();
    restored.kept = *std::move(kept);
  }
  // A name of its own: a process that still had the old one open could remove what is called like its log.
  const std::string name = absl::StrCat("supervisor-", (*lease)->sequence(), ".db");
  if (const absl::Status status = RenameFile(copy, absl::StrCat(folder, "/", name)); !status.ok())
    return status;
  if (const absl::Status status = SyncPath(folder); !status.ok()) return status;
  if (const absl::Status status = (*lease)->SetDatabase(name); !status.ok()) return status;
  RemoveDatabase(path);
  return restored;
}

}  // namespace adaptdl::supervisor
