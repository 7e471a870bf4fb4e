#include "services/supervisor/store/check.h"

#include <algorithm>
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
#include "services/supervisor/store/restore.h"
#include "services/supervisor/store/sqlite.h"

namespace adaptdl::supervisor {
namespace {

namespace fs = std::filesystem;

absl::Status Copy(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::copy_file(from, to, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("copying ", from, " to ", to));
  // It holds secrets.
  fs::permissions(to, fs::perms::owner_read | fs::perms::owner_write, error);
  return absl::OkStatus();
}

absl::Status CopyState(const std::string& folder, const std::string& to, const Clock& clock) {
  const RealSteadyClock steady;
  FileLeaseOptions options;
  options.folder = folder;
  options.address = "check";
  const absl::StatusOr<std::unique_ptr<FileLease>> lease = FileLease::Create(options, &steady, &clock);
  if (!lease.ok()) return lease.status();
  if (const absl::Status status = AwaitLease(folder, clock, lease->get()); !status.ok()) return status;
  (*lease)->StartRenewal();
  const std::string path = absl::StrCat(folder, "/", (*lease)->database());
  std::error_code error;
  if (!fs::exists(path, error)) return absl::NotFoundError(absl::StrCat(folder, ": there is no state in it"));
  if (const absl::Status status = CheckUnused(path); !status.ok()) return status;
  return Copy(path, to);
}

// Whether the repair has changed something.
bool Changes(const StoreReport& report, Repair repair) {
  return std::any_of(report.damaged.begin(), report.damaged.end(), [&](const DamagedRow& row) {
    return repair != Repair::kNothing && (row.mended || repair == Repair::kRemove);
  });
}

absl::StatusOr<std::string> PutInPlace(const std::string& copy, const std::string& path, const Clock& clock) {
  if (const absl::Status status = SyncPath(copy); !status.ok()) return status;
  absl::StatusOr<std::string> kept = KeepAside(path, clock.Now());
  if (!kept.ok()) return kept.status();
  if (const absl::Status status = RenameFile(copy, path); !status.ok()) return status;
  const std::string folder = fs::path(path).parent_path().string();
  if (const absl::Status status = SyncPath(folder.empty() ? "." : folder); !status.ok()) return status;
  return kept;
}

}  // namespace

absl::StatusOr<CheckedStore> CheckStore(const std::string& path, Repair repair, const Clock& clock) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  if (!is_folder && !fs::is_regular_file(path, error)) {
    return absl::NotFoundError(absl::StrCat(path, ": no such file or folder"));
  }
  const std::string copy = absl::StrCat(path, is_folder ? "/check-" : ".check-", RandomHex(8), ".db");
  const auto remove = absl::MakeCleanup([&copy] { RemoveDatabase(copy); });
  if (const absl::Status status = is_folder ? CopyState(path, copy, clock) : Copy(path, copy); !status.ok())
    return status;
  absl::StatusOr<StoreReport> report = ExamineDatabase(path, copy, repair, clock.Now());
  if (!report.ok()) return report.status();
  CheckedStore checked;
  checked.state = *std::move(report);
  if (!Changes(checked.state, repair)) return checked;
  if (is_folder) {
    absl::StatusOr<Restored> restored = RestoreStore(copy, path, /*replace=*/true, clock);
    if (!restored.ok()) return restored.status();
    checked.kept = std::move(restored->kept);
  } else {
    absl::StatusOr<std::string> kept = PutInPlace(copy, path, clock);
    if (!kept.ok()) return kept.status();
    checked.kept = *std::move(kept);
  }
  return checked;
}

}  // namespace adaptdl::supervisor
