// A thin layer over SQLite's C interface: databases and prepared statements that close themselves, and errors
// as canonical codes. Not thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_SQLITE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_SQLITE_H_

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace adaptdl::supervisor {

// Canonical status of the database's last error: RESOURCE_EXHAUSTED for a full disk, UNAVAILABLE for one that
// can't be written or is busy, DATA_LOSS for a corrupt file, else INTERNAL.
absl::Status SqliteStatus(sqlite3* database, absl::string_view what);
// Whether it is the status of a sync that failed: the kernel may have dropped what was to be written, and
// takes it for written from then on.
bool IsSyncFailure(const absl::Status& status);
absl::Status SyncFailure(absl::string_view text);
// Whether it is the status of a database that somebody else holds.
bool IsLocked(const absl::Status& status);

// Times are stored as microseconds since 1970. 0: InfinitePast.
int64_t ToMicros(absl::Time time);
absl::Time FromMicros(int64_t micros);

// Removes the file of a database and what SQLite keeps beside it.
void RemoveDatabase(const std::string& path);

class Statement {
 public:
  static absl::StatusOr<Statement> Prepare(sqlite3* database, const std::string& sql);

  // Arguments are numbered from 1; bound ones keep their value until Reset().
  void Bind(int index, int64_t value);
  void Bind(int index, absl::string_view text);
  void BindBlob(int index, absl::string_view bytes);

  // Goes to the next row. False: there is none.
  absl::StatusOr<bool> Step();
  // Goes through all rows and calls `take` at each, which reads the columns; resets the statement in any
  // case. An error of `take` ends it.
  absl::Status ForEachRow(absl::FunctionRef<absl::Status()> take);
  // For statements without rows: runs them once and resets them.
  absl::Status Run();
  void Reset();

  // Columns of the row, numbered from 0.
  int64_t Integer(int column) const;
  std::string Text(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  sqlite3* database_ = nullptr;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

class Database {
 public:
  // Creates the file if it does not exist.
  static absl::StatusOr<Database> Open(const std::string& path);

  // Runs statements without arguments and without results.
  absl::Status Execute(const std::string& sql);
  // First column of the first row of `sql`, as text. Empty: no row.
  absl::StatusOr<std::string> Query(const std::string& sql);

  sqlite3* handle() const { return database_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
  };
  std::unique_ptr<sqlite3, Close> database_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_SQLITE_H_
