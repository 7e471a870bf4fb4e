#include "services/supervisor/store/sqlite_job_store.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/base/random_id.h"
#include "libs/messages/text.h"
#include "services/supervisor/store/migrations.h"
#include "services/supervisor/store/offline.h"
#include "services/supervisor/store/store_reader.h"
#include "services/supervisor/store/store_writer.h"

namespace adaptdl::supervisor {
namespace {

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("state database: ", what, " can't be read; restore it from a backup"));
}

// Of the files' names.
constexpr char kBackupPrefix[] = "backup-";

absl::Status Configure(const SqliteJobStoreOptions& options, Database* database) {
  sqlite3_busy_timeout(database->handle(), static_cast<int>(absl::ToInt64Milliseconds(options.busy_timeout)));
  // The lock is taken with the first access and kept: two supervisors on one state would overwrite each
  // other.
  for (const char* pragma : {"PRAGMA locking_mode = EXCLUSIVE", "PRAGMA journal_mode = WAL",
                             "PRAGMA synchronous = NORMAL", "PRAGMA foreign_keys = ON",
                             "PRAGMA journal_size_limit = 67108864", "PRAGMA wal_autocheckpoint = 0"}) {
    const absl::StatusOr<std::string> result = database->Query(pragma);
    if (!result.ok()) return result.status();
  }
  if (options.max_bytes > 0) {
    const absl::StatusOr<std::string> page = database->Query("PRAGMA page_size");
    if (!page.ok()) return page.status();
    int64_t page_bytes = 4096;
    (void)absl::SimpleAtoi(*page, &page_bytes);
    const absl::StatusOr<std::string> limit = database->Query(
        absl::StrCat("PRAGMA max_page_count = ", std::max<int64_t>(1, options.max_bytes / page_bytes)));
    if (!limit.ok()) return limit.status();
  }
  return absl::OkStatus();
}

absl::Status Check(Database* database) {
  const absl::StatusOr<std::string> check = database->Query("PRAGMA quick_check");
  if (!check.ok()) return check.status();
  if (*check == "ok") return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("state database: is damaged: ", *check, "; restore it from a backup"));
}

// Copies that a process has made and did not live to remove. The lock is ours: whoever made them is gone, or
// does not lead any more.
void RemoveBackups(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (absl::StartsWith(entry->path().filename().string(), kBackupPrefix)) {
      std::filesystem::remove(entry->path(), ignored);
    }
  }
}

// The write-ahead log's file, which SQLite opens with the first access and keeps open.
absl::StatusOr<sqlite3_file*> FindLog(Database* database) {
  sqlite3_file* log = nullptr;
  const int code = sqlite3_file_control(database->handle(), "main", SQLITE_FCNTL_JOURNAL_POINTER,
                                        static_cast<void*>(&log));
  if (code == SQLITE_OK && log != nullptr && log->pMethods != nullptr) return log;
  return absl::InternalError("state database: SQLite does not give its write-ahead log");
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteJobStore>> SqliteJobStore::Open(const SqliteJobStoreOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("--state-dir: can't make ", options.folder, ": ", error.message()));
  }
  // The secrets of groups are in there.
  std::filesystem::permissions(options.folder, std::filesystem::perms::owner_all, error);
  absl::StatusOr<Database> database = Database::Open(absl::StrCat(options.folder, "/", options.file));
  if (!database.ok()) return database.status();
  if (const absl::Status status = Configure(options, &*database); !status.ok()) return status;
  if (const absl::Status status = Migrate(&*database); !status.ok()) return status;
  // After the migration: what it mends is not to be found.
  if (const absl::Status status = Check(&*database); !status.ok()) return status;
  RemoveBackups(options.folder);
  const absl::StatusOr<sqlite3_file*> log = FindLog(&*database);
  if (!log.ok()) return log.status();
  // That the files are there: SQLite tries it too, and ignores errors.
  if (const absl::Status status = SyncPath(options.folder); !status.ok()) return status;
  std::unique_ptr<SqliteJobStore> store(new SqliteJobStore(options, *std::move(database), *log));
  MutexLock lock(&store->mutex_);
  sqlite3_wal_hook(store->database_.handle(), &SqliteJobStore::NoteLogPages, store.get());
  return store;
}

int SqliteJobStore::NoteLogPages(void* store, sqlite3* /*database*/, const char* /*name*/, int pages) {
  static_cast<SqliteJobStore*>(store)->log_pages_ = pages;
  return SQLITE_OK;
}

absl::Status SqliteJobStore::Judge(absl::Status status) {
  if (sync_failed_.load()) {
    return absl::UnavailableError("state database: a sync has failed, and what is on the disk is unknown");
  }
  if (IsSyncFailure(status)) {
    sync_failed_ = true;
    if (options_.on_sync_failure != nullptr) options_.on_sync_failure(status);
  }
  return status;
}

absl::Status SqliteJobStore::Commit(const WriteBatch& batch) {
  if (batch.empty()) return absl::OkStatus();
  MutexLock lock(&mutex_);
  if (absl::Status status = Judge(absl::OkStatus()); !status.ok()) return status;
  absl::Status status = Judge(database_.Execute("BEGIN IMMEDIATE"));
  if (!status.ok()) return status;
  status = StoreWriter(&statements_).Write(batch);
  if (status.ok()) status = database_.Execute("COMMIT");
  // Some errors have rolled back by themselves; then this one does nothing.
  if (!status.ok() && sqlite3_get_autocommit(database_.handle()) == 0) {
    database_.Execute("ROLLBACK").IgnoreError();
  }
  return Judge(std::move(status));
}

absl::Status SqliteJobStore::Sync() {
  const int code = log_->pMethods->xSync(log_, SQLITE_SYNC_NORMAL);
  if (code != SQLITE_OK) {
    return Judge(SyncFailure(
        absl::StrCat("state database: its log can't be brought to the disk: ", sqlite3_errstr(code))));
  }
  if (const absl::Status status = Judge(absl::OkStatus()); !status.ok()) return status;
  return log_pages_.load() < options_.checkpoint_pages ? absl::OkStatus() : Checkpoint();
}

absl::Status SqliteJobStore::Checkpoint() {
  MutexLock lock(&mutex_);
  sqlite3* database = database_.handle();
  const int code =
      sqlite3_wal_checkpoint_v2(database, "main", SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr) & 0xff;
  if (code == SQLITE_OK) {
    log_pages_ = 0;  // The next commit begins it anew, or says how long it is still.
    return Judge(absl::OkStatus());
  }
  // Somebody reads, or the disk is full: all of it is in the log still, and durable there. The next sync
  // tries again.
  if (code == SQLITE_BUSY || code == SQLITE_LOCKED || code == SQLITE_FULL) return absl::OkStatus();
  // Whatever else it is, the disk does not do what it is told.
  return Judge(SyncFailure(SqliteStatus(database, "checkpoint").message()));
}

absl::StatusOr<StoreContents> SqliteJobStore::Load(absl::Time now) {
  MutexLock lock(&mutex_);
  return ReadStore(&database_, now);
}

absl::StatusOr<int64_t> SqliteJobStore::LastId(const std::string& table) {
  const absl::StatusOr<std::string> text =
      database_.Query(absl::StrCat("SELECT seq FROM sqlite_sequence WHERE name = '", table, "'"));
  if (!text.ok()) return text.status();
  int64_t id = 0;
  if (!text->empty() && !absl::SimpleAtoi(*text, &id)) return Damaged("the counter of " + table);
  return id;
}

absl::StatusOr<std::vector<v1::Event>> SqliteJobStore::ListEvents(const EventQuery& query) {
  MutexLock lock(&mutex_);
  absl::Status status;
  Statement* statement = query.job.empty()
                             ? statements_.Find(
                                   "SELECT id, job_uid, namespace, job, event FROM events "
                                   "WHERE id > ?1 AND namespace = ?2 ORDER BY id LIMIT ?3",
                                   &status)
                             : statements_.Find(
                                   "SELECT id, job_uid, namespace, job, event FROM events "
                                   "WHERE id > ?1 AND namespace = ?2 AND job = ?4 ORDER BY id LIMIT ?3",
                                   &status);
  if (statement == nullptr) return status;
  statement->Bind(1, query.after_id);
  statement->Bind(2, query.name_space);
  statement->Bind(3, int64_t{query.limit});
  if (!query.job.empty()) statement->Bind(4, query.job);
  std::vector<v1::Event> events;
  size_t bytes = 0;
  const absl::Cleanup reset = [&] { statement->Reset(); };
  while (bytes <= query.max_bytes) {
    const absl::StatusOr<bool> row = statement->Step();
    if (!row.ok()) return row.status();
    if (!*row) break;
    const std::string event = statement->Text(4);
    events.push_back(
        ReadEvent(statement->Integer(0), statement->Text(1), statement->Text(2), statement->Text(3), event));
    bytes += event.size();
  }
  return events;
}

absl::StatusOr<std::vector<ReplicaRecord>> SqliteJobStore::ListReplicas(const std::string& job_uid) {
  MutexLock lock(&mutex_);
  return ReadReplicasOf(job_uid, &database_);
}

absl::StatusOr<std::optional<RequestRecord>> SqliteJobStore::FindRequest(const std::string& caller,
                                                                         const std::string& name_space,
                                                                         const std::string& request_id) {
  MutexLock lock(&mutex_);
  absl::Status status;
  Statement* statement = statements_.Find(
      "SELECT method, content, time, response FROM answers "
      "WHERE caller = ? AND namespace = ? AND request_id = ?",
      &status);
  if (statement == nullptr) return status;
  statement->Bind(1, caller);
  statement->Bind(2, name_space);
  statement->Bind(3, request_id);
  const absl::StatusOr<bool> row = statement->Step();
  if (!row.ok()) return row.status();
  if (!*row) return std::optional<RequestRecord>();
  RequestRecord record{{caller, name_space, request_id, statement->Text(0), statement->Text(1)},
                       statement->Text(3),
                       FromMicros(statement->Integer(2))};
  statement->Reset();
  return std::optional<RequestRecord>(std::move(record));
}

absl::Status SqliteJobStore::PruneRequests(absl::Time time) {
  MutexLock lock(&mutex_);
  absl::Status status;
  Statement* statement = statements_.Find("DELETE FROM answers WHERE time < ?", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, ToMicros(time));
  return Judge(statement->Run());
}

absl::StatusOr<std::optional<absl::Time>> SqliteJobStore::TimeOfEventFrom(int64_t id) {
  absl::Status status;
  Statement* statement = statements_.Find("SELECT event FROM events WHERE id >= ? ORDER BY id", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, id);
  while (true) {
    const absl::StatusOr<bool> row = statement->Step();
    if (!row.ok()) return row.status();
    if (!*row) return std::optional<absl::Time>();
    v1::Event event;
    // One that can't be read goes with its neighbours.
    if (messages::ParseMending(statement->Text(0), &event) == messages::Parsed::kUnreadable) continue;
    statement->Reset();
    return std::optional<absl::Time>(TimeOf(event));
  }
}

absl::Status SqliteJobStore::PruneEvents(absl::Time time) {
  MutexLock lock(&mutex_);
  const absl::StatusOr<int64_t> last = LastId("events");
  if (!last.ok()) return last.status();
  // Ids grow with time: all below `first` are older.
  int64_t first = 0;
  for (int64_t end = *last + 1; first < end;) {
    const int64_t middle = first + (end - first) / 2;
    const absl::StatusOr<std::optional<absl::Time>> found = TimeOfEventFrom(middle);
    if (!found.ok()) return found.status();
    if (found->has_value() && **found < time) {
      first = middle + 1;
    } else {
      end = middle;
    }
  }
  absl::Status status;
  // Not all at once: others wait for the store meanwhile, and the rest goes the next time.
  Statement* statement = statements_.Find(
      "DELETE FROM events WHERE id < ? AND id < (SELECT MIN(id) FROM events) + 10000", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, first);
  return Judge(statement->Run());
}

absl::Status SqliteJobStore::PruneReplicas(const std::string& job_uid, int keep) {
  MutexLock lock(&mutex_);
  absl::Status status;
  // The key is in the order of the launches.
  Statement* statement = statements_.Find(
      "DELETE FROM replicas WHERE job_uid = ?1 AND live = 0 "
      "AND grp < (SELECT grp FROM replicas WHERE job_uid = ?1 ORDER BY grp DESC LIMIT 1 OFFSET ?2) "
      "AND current_grp < (SELECT grp FROM jobs WHERE uid = ?1)",
      &status);
  if (statement == nullptr) return status;
  statement->Bind(1, job_uid);
  statement->Bind(2, int64_t{keep});
  return Judge(statement->Run());
}

absl::StatusOr<std::string> SqliteJobStore::Backup() {
  constexpr int kPages = 1024;  // at a time; commits come in between
  const std::string path = absl::StrCat(options_.folder, "/", kBackupPrefix, RandomHex(8), ".db");
  absl::StatusOr<Database> copy = Database::Open(path);
  if (!copy.ok()) return copy.status();
  std::error_code ignored;
  auto remove = absl::MakeCleanup([&] { std::filesystem::remove(path, ignored); });
  sqlite3_backup* backup = nullptr;
  int code = SQLITE_OK;
  while (code == SQLITE_OK) {
    MutexLock lock(&mutex_);
    if (backup == nullptr) backup = sqlite3_backup_init(copy->handle(), "main", database_.handle(), "main");
    if (backup == nullptr) return SqliteStatus(copy->handle(), "backup");
    // What is committed meanwhile through this connection goes into the copy as well.
    code = sqlite3_backup_step(backup, kPages);
  }
  {
    MutexLock lock(&mutex_);
    sqlite3_backup_finish(backup);
  }
  if (code != SQLITE_DONE) return SqliteStatus(copy->handle(), "backup");
  std::move(remove).Cancel();
  return path;
}

}  // namespace adaptdl::supervisor
