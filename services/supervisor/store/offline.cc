#include "services/supervisor/store/offline.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"
#include "services/supervisor/store/migrations.h"
#include "services/supervisor/store/sqlite.h"
#include "services/supervisor/store/stored_messages.h"

namespace adaptdl::supervisor {
namespace {

namespace fs = std::filesystem;

absl::Status NoState(const std::string& name, absl::string_view why) {
  return absl::DataLossError(absl::StrCat(name, ": is no state of a supervisor that can be used: ", why));
}

absl::StatusOr<int64_t> QueryNumber(Database* database, const std::string& sql) {
  const absl::StatusOr<std::string> text = database->Query(sql);
  if (!text.ok()) return text.status();
  int64_t number = 0;
  if (!absl::SimpleAtoi(*text, &number)) return absl::DataLossError(absl::StrCat(sql, ": \"", *text, "\""));
  return number;
}

absl::Status Link(const std::string& from, const std::string& to) {
  return link(from.c_str(), to.c_str()) == 0 ? absl::OkStatus() : ErrnoStatus(errno, to);
}

absl::Status RepairRows(Database* database, Repair repair, absl::Time now, MessageReader* reader) {
  if (absl::Status status = database->Execute("BEGIN IMMEDIATE"); !status.ok()) return status;
  auto roll_back = absl::MakeCleanup([&] { database->Execute("ROLLBACK").IgnoreError(); });
  if (absl::Status status = reader->WriteBack(database, now); !status.ok()) return status;
  if (repair == Repair::kRemove) {
    if (absl::Status status = RemoveUnreadable(database, *reader); !status.ok()) return status;
  }
  if (absl::Status status = database->Execute("COMMIT"); !status.ok()) return status;
  std::move(roll_back).Cancel();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StoreReport> ExamineDatabase(const std::string& name, const std::string& path, Repair repair,
                                            absl::Time now) {
  absl::StatusOr<Database> database = Database::Open(path);
  if (!database.ok()) return NoState(name, database.status().message());
  const absl::StatusOr<int64_t> version = QueryNumber(&*database, "PRAGMA user_version");
  if (!version.ok()) return NoState(name, version.status().message());
  if (*version == 0) return NoState(name, "nothing is in it");
  const absl::StatusOr<std::string> keys = database->Query("PRAGMA foreign_keys = ON");
  if (!keys.ok()) return keys.status();
  if (const absl::Status status = Migrate(&*database); !status.ok()) return status;
  const absl::StatusOr<std::string> check = database->Query("PRAGMA integrity_check");
  if (!check.ok()) return NoState(name, check.status().message());
  if (*check != "ok") return NoState(name, *check);
  MessageReader reader;
  if (const absl::Status status = ReadAllMessages(&*database, &reader); !status.ok()) return status;
  if (repair != Repair::kNothing && !reader.empty()) {
    if (const absl::Status status = RepairRows(&*database, repair, now, &reader); !status.ok()) return status;
  }
  StoreReport report;
  report.damaged = reader.damaged();
  const std::pair<const char*, int64_t*> counts[] = {{"jobs", &report.jobs},
                                                     {"replicas", &report.replicas},
                                                     {"events", &report.events},
                                                     {"nodes", &report.nodes},
                                                     {"quotas", &report.quotas}};
  for (const auto& [table, count] : counts) {
    const absl::StatusOr<int64_t> rows =
        QueryNumber(&*database, absl::StrCat("SELECT count(*) FROM ", table));
    if (!rows.ok()) return NoState(name, rows.status().message());
    *count = *rows;
  }
  const absl::StatusOr<std::string> mode = database->Query("PRAGMA journal_mode = DELETE");
  if (!mode.ok()) return mode.status();
  return report;
}

// A supervisor holds the lock of its database as long as it runs.
absl::Status CheckUnused(const std::string& path) {
  absl::StatusOr<Database> database = Database::Open(path);
  if (!database.ok()) return absl::OkStatus();  // Damaged, so nobody uses it.
  const absl::Status status = database->Execute("BEGIN EXCLUSIVE; ROLLBACK");
  const int code = sqlite3_errcode(database->handle()) & 0xff;
  if (status.ok() || (code != SQLITE_BUSY && code != SQLITE_LOCKED)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("--state-dir: a supervisor is using ", path, "; stop it first"));
}

absl::Status SyncPath(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool done = file >= 0 && fsync(file) == 0;
  const int error = errno;
  if (file >= 0) close(file);
  return done ? absl::OkStatus() : ErrnoStatus(error, path);
}

absl::Status RenameFile(const std::string& from, const std::string& to) {
  return rename(from.c_str(), to.c_str()) == 0 ? absl::OkStatus() : ErrnoStatus(errno, from);
}

absl::StatusOr<std::string> KeepAside(const std::string& path, absl::Time now) {
  const std::string kept = absl::StrCat(
      path, ".before-", absl::FormatTime("%Y%m%dT%H%M%SZ", now, absl::UTCTimeZone()), "-", RandomHex(2));
  if (const absl::Status status = Link(path, kept); !status.ok()) return status;
  std::error_code error;
  if (fs::exists(path + "-wal", error)) {
    if (const absl::Status status = Link(path + "-wal", kept + "-wal"); !status.ok()) return status;
  }
  return kept;
}

absl::Status AwaitLease(const std::string& folder, const Clock& clock, FileLease* lease) {
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
    clock.SleepFor(absl::Milliseconds(50));
  }
}

}  // namespace adaptdl::supervisor
