#include "services/supervisor/store/restore.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libs/base/clock.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"
#include "services/supervisor/lease/file_lease.h"
#include "services/supervisor/store/migrations.h"
#include "services/supervisor/store/sqlite.h"

namespace adaptdl::supervisor {
namespace {

namespace fs = std::filesystem;

absl::Status NoBackup(const std::string& path, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(path, ": is no backup that can be used: ", why));
}

absl::StatusOr<int64_t> QueryNumber(Database* database, const std::string& sql) {
  const absl::StatusOr<std::string> text = database->Query(sql);
  if (!text.ok()) return text.status();
  int64_t number = 0;
  if (!absl::SimpleAtoi(*text, &number)) return absl::DataLossError(absl::StrCat(sql, ": \"", *text, "\""));
  return number;
}

// Checks the copy of `backup` at `path`, and brings it to the newest version.
absl::StatusOr<Restored> Examine(const std::string& backup, const std::string& path) {
  absl::StatusOr<Database> database = Database::Open(path);
  if (!database.ok()) return NoBackup(backup, database.status().message());
  const absl::StatusOr<int64_t> version = QueryNumber(&*database, "PRAGMA user_version");
  if (!version.ok()) return NoBackup(backup, version.status().message());
  if (*version == 0) return NoBackup(backup, "there is no state of a supervisor in it");
  if (const absl::Status status = Migrate(&*database); !status.ok()) return status;
  const absl::StatusOr<std::string> check = database->Query("PRAGMA integrity_check");
  if (!check.ok()) return NoBackup(backup, check.status().message());
  if (*check != "ok") return NoBackup(backup, *check);
  const absl::StatusOr<int64_t> jobs = QueryNumber(&*database, "SELECT count(*) FROM jobs");
  if (!jobs.ok()) return NoBackup(backup, jobs.status().message());
  const absl::StatusOr<int64_t> nodes = QueryNumber(&*database, "SELECT count(*) FROM nodes");
  if (!nodes.ok()) return NoBackup(backup, nodes.status().message());
  // All of it into the one file.
  const absl::StatusOr<std::string> mode = database->Query("PRAGMA journal_mode = DELETE");
  if (!mode.ok()) return mode.status();
  return Restored{*jobs, *nodes, ""};
}

// A supervisor holds the lock of its database as long as it runs. Brings what is in the log into the file.
absl::Status CheckUnused(const std::string& path) {
  absl::StatusOr<Database> database = Database::Open(path);
  if (!database.ok()) return absl::OkStatus();  // Damaged, so nobody uses it.
  const absl::Status status = database->Execute("BEGIN EXCLUSIVE; ROLLBACK");
  const int code = sqlite3_errcode(database->handle()) & 0xff;
  if (status.ok() || (code != SQLITE_BUSY && code != SQLITE_LOCKED)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("--state-dir: a supervisor is using ", path, "; stop it first"));
}

void RemoveDatabase(const std::string& path) {
  std::error_code ignored;
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) fs::remove(path + suffix, ignored);
}

absl::Status Sync(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool done = file >= 0 && fsync(file) == 0;
  const int error = errno;
  if (file >= 0) close(file);
  return done ? absl::OkStatus() : ErrnoStatus(error, path);
}

absl::Status Rename(const std::string& from, const std::string& to) {
  return rename(from.c_str(), to.c_str()) == 0 ? absl::OkStatus() : ErrnoStatus(errno, from);
}

absl::Status Link(const std::string& from, const std::string& to) {
  return link(from.c_str(), to.c_str()) == 0 ? absl::OkStatus() : ErrnoStatus(errno, to);
}

// Gives the state of now a second name. A log beside it is there only if it could not be opened.
absl::StatusOr<std::string> KeepAside(const std::string& path) {
  const std::string kept =
      absl::StrCat(path, ".before-", absl::FormatTime("%Y%m%dT%H%M%SZ", absl::Now(), absl::UTCTimeZone()),
                   "-", RandomHex(2));
  if (const absl::Status status = Link(path, kept); !status.ok()) return status;
  std::error_code error;
  if (fs::exists(path + "-wal", error)) {
    if (const absl::Status status = Link(path + "-wal", kept + "-wal"); !status.ok()) return status;
  }
  return kept;
}

// Takes the lease of the folder, so that no supervisor begins meanwhile, and one that is stopped finds out.
absl::Status AwaitLease(const std::string& folder, FileLease* lease) {
  std::optional<LeaseRecord> first;
  while (true) {
    const absl::StatusOr<bool> acquired = lease->TryAcquire();
    if (!acquired.ok()) return acquired.status();
    if (*acquired) return absl::OkStatus();
    const std::optional<LeaseRecord> seen = lease->seen();
    if (first.has_value() && seen.has_value() &&
        (seen->sequence != first->sequence || seen->renewals != first->renewals)) {
      return absl::FailedPreconditionError(absl::StrCat("--state-dir: a supervisor (process ",
                                                        seen->process.pid, ", --listen ", seen->address,
                                                        ") is using ", folder, "; stop it first"));
    }
    if (!first.has_value()) first = seen;
    absl::SleepFor(absl::Milliseconds(50));
  }
}

}  // namespace

absl::StatusOr<Restored> RestoreStore(const std::string& backup, const std::string& folder, bool replace) {
  std::error_code error;
  if (!fs::is_regular_file(backup, error)) return absl::NotFoundError(absl::StrCat(backup, ": no such file"));
  const RealSteadyClock steady;
  const RealClock wall;
  FileLeaseOptions lease_options;
  lease_options.folder = folder;
  lease_options.address = "restore";
  const absl::StatusOr<std::unique_ptr<FileLease>> lease = FileLease::Create(lease_options, &steady, &wall);
  if (!lease.ok()) return lease.status();
  const std::string copy = absl::StrCat(folder, "/restore-", RandomHex(8), ".db");
  const auto remove = absl::MakeCleanup([&copy] { RemoveDatabase(copy); });
  fs::copy_file(backup, copy, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("copying ", backup, " to ", folder));
  absl::StatusOr<Restored> restored = Examine(backup, copy);
  if (!restored.ok()) return restored.status();
  if (const absl::Status status = Sync(copy); !status.ok()) return status;
  if (const absl::Status status = AwaitLease(folder, lease->get()); !status.ok()) return status;
  (*lease)->StartRenewal();
  const std::string path = absl::StrCat(folder, "/", (*lease)->database());
  if (fs::exists(path, error)) {
    if (const absl::Status status = CheckUnused(path); !status.ok()) return status;
    if (!replace) {
      return absl::AlreadyExistsError(absl::StrCat("--state-dir: there is a state in ", folder,
                                                   "; --replace puts the backup in its place"));
    }
    absl::StatusOr<std::string> kept = KeepAside(path);
    if (!kept.ok()) return kept.status();
    restored->kept = *std::move(kept);
  }
  // A name of its own: a process that still had the old one open could remove what is called like its log.
  const std::string name = absl::StrCat("supervisor-", (*lease)->sequence(), ".db");
  if (const absl::Status status = Rename(copy, absl::StrCat(folder, "/", name)); !status.ok()) return status;
  if (const absl::Status status = Sync(folder); !status.ok()) return status;
  if (const absl::Status status = (*lease)->SetDatabase(name); !status.ok()) return status;
  RemoveDatabase(path);
  return restored;
}

}  // namespace adaptdl::supervisor
