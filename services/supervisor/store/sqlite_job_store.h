// The store on disk: one SQLite file in WAL mode. Commits append to the log, and Sync() brings the log to the
// disk, apart from SQLite's own lock, so that one sync serves many commits (SQLite's synchronous=FULL would
// sync for each).
//
// When the log has grown, Sync() also moves it into the database (a checkpoint). SQLite would do so by itself
// after a commit, and tell nobody when a sync fails on the way, whereupon the next sync of the same file
// succeeds: what was committed before would be taken for durable, and is not. After any sync that has failed
// the store does nothing more. Writes that fail cost only their own commit. One process at a time: the file
// is locked while it is open. Thread-safe; calls wait for each other.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_SQLITE_JOB_STORE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_SQLITE_JOB_STORE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libs/base/mutex.h"
#include "services/supervisor/store/job_store.h"
#include "services/supervisor/store/sqlite.h"
#include "services/supervisor/store/statements.h"

namespace adaptdl::supervisor {

struct SqliteJobStoreOptions {
  // Folder of the database; made if it does not exist.
  std::string folder;
  // Name of the database's file in it.
  std::string file = "supervisor.db";
  // Largest size of the database. 0: as large as the disk allows.
  int64_t max_bytes = 0;
  // How long to wait for another process that still holds the database (one that is just ending, say).
  absl::Duration busy_timeout = absl::Seconds(5);
  // Pages of the log (4 KiB each) from which on it is moved into the database.
  int checkpoint_pages = 1000;
  // Called when a sync has failed, by whichever thread it failed in, with locks held: what is on the disk is
  // unknown from then on. It is to end the process.
  std::function<void(const absl::Status&)> on_sync_failure;
};

class SqliteJobStore final : public JobStore {
 public:
  // Opens, checks (PRAGMA quick_check) and migrates the database.
  static absl::StatusOr<std::unique_ptr<SqliteJobStore>> Open(const SqliteJobStoreOptions& options);

  absl::StatusOr<StoreContents> Load(absl::Time now) override;
  absl::Status Commit(const WriteBatch& batch) override;
  bool needs_sync() const override { return true; }
  absl::Status Sync() override;
  absl::StatusOr<std::vector<v1::Event>> ListEvents(const EventQuery& query) override;
  absl::StatusOr<std::vector<ReplicaRecord>> ListReplicas(const std::string& job_uid) override;
  absl::StatusOr<std::optional<RequestRecord>> FindRequest(const std::string& caller,
                                                           const std::string& name_space,
                                                           const std::string& request_id) override;
  absl::Status PruneRequests(absl::Time time) override;
  absl::Status PruneEvents(absl::Time time) override;
  absl::Status PruneReplicas(const std::string& job_uid, int keep) override;
  absl::StatusOr<std::string> Backup() override;

 private:
  SqliteJobStore(const SqliteJobStoreOptions& options, Database database, sqlite3_file* log)
      : options_(options), log_(log), database_(std::move(database)), statements_(database_.handle()) {}

  // Moves the log into the database if it is long.
  absl::Status Checkpoint() ABSL_LOCKS_EXCLUDED(mutex_);
  // The status, or that of a sync that failed before; see SqliteJobStoreOptions::on_sync_failure.
  absl::Status Judge(absl::Status status);
  // Of SQLite: the log has so many pages after a commit.
  static int NoteLogPages(void* store, sqlite3* database, const char* name, int pages);

  absl::StatusOr<int64_t> LastId(const std::string& table) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Time of the first event whose id is `id` or larger. Nothing: there is none.
  absl::StatusOr<std::optional<absl::Time>> TimeOfEventFrom(int64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const SqliteJobStoreOptions options_;
  // The write-ahead log; the database's, which keeps it open.
  sqlite3_file* const log_;
  std::atomic<int> log_pages_ = 0;
  std::atomic<bool> sync_failed_ = false;
  Mutex mutex_;
  Database database_ ABSL_GUARDED_BY(mutex_);
  Statements statements_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_SQLITE_JOB_STORE_H_
