#include "services/supervisor/store/sqlite.h"

#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"

namespace adaptdl::supervisor {
namespace {

constexpr absl::string_view kLockedPayload = "adaptdl.supervisor/locked";
constexpr absl::string_view kSyncPayload = "adaptdl.supervisor/sync";

}  // namespace

void RemoveDatabase(const std::string& path) {
  std::error_code ignored;
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) std::filesystem::remove(path + suffix, ignored);
}

bool IsSyncFailure(const absl::Status& status) { return status.GetPayload(kSyncPayload).has_value(); }

absl::Status SyncFailure(absl::string_view text) {
  absl::Status status = absl::UnavailableError(text);
  status.SetPayload(kSyncPayload, absl::Cord());
  return status;
}

bool IsLocked(const absl::Status& status) { return status.GetPayload(kLockedPayload).has_value(); }

absl::Status SqliteStatus(sqlite3* database, absl::string_view what) {
  const std::string text = absl::StrCat("state database: ", what, ": ", sqlite3_errmsg(database));
  switch (sqlite3_errcode(database) & 0xff) {
    case SQLITE_FULL:
      return absl::ResourceExhaustedError(
          absl::StrCat(text, "; free space on the disk of --state-dir and try again"));
    case SQLITE_IOERR: {
      absl::Status status = absl::UnavailableError(absl::StrCat(text, "; check the disk of --state-dir"));
      const int code = sqlite3_extended_errcode(database);
      if (code == SQLITE_IOERR_FSYNC || code == SQLITE_IOERR_DIR_FSYNC) {
        status.SetPayload(kSyncPayload, absl::Cord());
      }
      return status;
    }
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
      return absl::UnavailableError(absl::StrCat(text, "; check that --state-dir can be written"));
    case SQLITE_BUSY:
    case SQLITE_LOCKED: {
      absl::Status status =
          absl::UnavailableError(absl::StrCat(text, "; is another supervisor using the same --state-dir?"));
      status.SetPayload(kLockedPayload, absl::Cord());
      return status;
    }
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return absl::DataLossError(absl::StrCat(text, "; restore the state directory from a backup"));
    default:
      return absl::InternalError(text);
  }
}

int64_t ToMicros(absl::Time time) { return time == absl::InfinitePast() ? 0 : absl::ToUnixMicros(time); }

absl::Time FromMicros(int64_t micros) {
  return micros == 0 ? absl::InfinitePast() : absl::FromUnixMicros(micros);
}

absl::StatusOr<Statement> Statement::Prepare(sqlite3* database, const std::string& sql) {
  Statement result;
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v3(database, sql.c_str(), -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr) !=
      SQLITE_OK) {
    return SqliteStatus(database, absl::StrCat("prepare \"", sql, "\""));
  }
  result.database_ = database;
  result.statement_.reset(statement);
  return result;
}

void Statement::Bind(int index, int64_t value) { sqlite3_bind_int64(statement_.get(), index, value); }

void Statement::Bind(int index, absl::string_view text) {
  sqlite3_bind_text64(statement_.get(), index, text.data() == nullptr ? "" : text.data(), text.size(),
                      SQLITE_TRANSIENT, SQLITE_UTF8);
}

void Statement::BindBlob(int index, absl::string_view bytes) {
  sqlite3_bind_blob64(statement_.get(), index, bytes.data() == nullptr ? "" : bytes.data(), bytes.size(),
                      SQLITE_TRANSIENT);
}

absl::StatusOr<bool> Statement::Step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  const absl::Status status = SqliteStatus(database_, "step");
  Reset();
  return status;
}

absl::Status Statement::ForEachRow(absl::FunctionRef<absl::Status()> take) {
  absl::Status status;
  while (status.ok()) {
    const absl::StatusOr<bool> row = Step();
    if (!row.ok()) return row.status();
    if (!*row) break;
    status = take();
  }
  Reset();
  return status;
}

absl::Status Statement::Run() {
  const absl::StatusOr<bool> row = Step();
  if (row.ok()) Reset();
  return row.status();
}

void Statement::Reset() {
  sqlite3_reset(statement_.get());
  sqlite3_clear_bindings(statement_.get());
}

int64_t Statement::Integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }

std::string Statement::Text(int column) const {
  const void* bytes = sqlite3_column_blob(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return bytes == nullptr ? std::string() : std::string(static_cast<const char*>(bytes), size);
}

absl::StatusOr<Database> Database::Open(const std::string& path) {
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(
      path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, nullptr);
  Database database;
  database.database_.reset(handle);
  if (handle == nullptr) return absl::ResourceExhaustedError("state database: no memory to open it");
  sqlite3_extended_result_codes(handle, 1);
  if (code != SQLITE_OK) return SqliteStatus(handle, absl::StrCat("open ", path));
  return database;
}

absl::Status Database::Execute(const std::string& sql) {
  if (sqlite3_exec(handle(), sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK) return absl::OkStatus();
  return SqliteStatus(handle(), sql.substr(0, sql.find('\n')));
}

absl::StatusOr<std::string> Database::Query(const std::string& sql) {
  absl::StatusOr<Statement> statement = Statement::Prepare(handle(), sql);
  if (!statement.ok()) return statement.status();
  const absl::StatusOr<bool> row = statement->Step();
  if (!row.ok()) return row.status();
  return *row ? statement->Text(0) : std::string();
}

}  // namespace adaptdl::supervisor
