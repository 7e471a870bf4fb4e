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

namespace adaptdl::supervisor {
namespace {

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("state database: ", what, " can't be read; restore it from a backup"));
}

int64_t ToMicros(absl::Time time) { return time == absl::InfinitePast() ? 0 : absl::ToUnixMicros(time); }

absl::Time FromMicros(int64_t micros) {
  return micros == 0 ? absl::InfinitePast() : absl::FromUnixMicros(micros);
}

bool MayLive(const v1::Replica& replica) {
  return replica.state() == v1::REPLICA_STATE_LAUNCHING || replica.state() == v1::REPLICA_STATE_RUNNING;
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

Statement* SqliteJobStore::Prepared(const std::string& sql, absl::Status* status) {
  auto it = statements_.find(sql);
  if (it == statements_.end()) {
    absl::StatusOr<Statement> statement = Statement::Prepare(database_.handle(), sql);
    if (!statement.ok()) {
      *status = statement.status();
      return nullptr;
    }
    it = statements_.emplace(sql, *std::move(statement)).first;
  }
  it->second.Reset();
  return &it->second;
}

absl::Status SqliteJobStore::Commit(const WriteBatch& batch) {
  if (batch.empty()) return absl::OkStatus();
  MutexLock lock(&mutex_);
  if (absl::Status status = Judge(absl::OkStatus()); !status.ok()) return status;
  absl::Status status = Judge(database_.Execute("BEGIN IMMEDIATE"));
  if (!status.ok()) return status;
  status = Write(batch);
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

absl::Status SqliteJobStore::Write(const WriteBatch& batch) {
  absl::Status status;
  for (const JobRecord& job : batch.put_jobs) status.Update(WriteJob(job));
  for (const ReplicaRecord& replica : batch.put_replicas) status.Update(WriteReplica(replica));
  for (const NodeRecord& node : batch.put_nodes) status.Update(WriteNode(node));
  for (const v1::Event& event : batch.add_events) status.Update(WriteEvent(event));
  for (const int64_t id : batch.remove_events) status.Update(RemoveEvent(id));
  for (const FileDeletion& deletion : batch.add_deletions) status.Update(WriteDeletion(deletion));
  if (batch.put_request.has_value()) status.Update(WriteRequest(*batch.put_request));
  for (const std::string& uid : batch.delete_jobs)
    status.Update(DeleteBy("DELETE FROM jobs WHERE uid = ?", uid));
  for (const std::string& id : batch.delete_nodes) {
    status.Update(DeleteBy("DELETE FROM nodes WHERE node_id = ?", id));
  }
  for (const std::string& id : batch.finish_deletions) {
    status.Update(DeleteBy("DELETE FROM file_deletions WHERE node_id = ?", id));
  }
  for (const auto& [node, uid] : batch.remove_deletions) status.Update(RemoveDeletion(node, uid));
  for (const v1::NamespaceQuota& quota : batch.put_quotas) status.Update(WriteQuota(quota));
  for (const std::string& name : batch.delete_quotas) {
    status.Update(DeleteBy("DELETE FROM quotas WHERE namespace = ?", name));
  }
  return status;
}

absl::Status SqliteJobStore::WriteJob(const JobRecord& record) {
  absl::Status status = UpdateJob(record);
  if (status.ok() && sqlite3_changes(database_.handle()) == 0) status = InsertJob(record);
  if (status.ok()) status = WriteTokens(record);
  if (status.ok()) status = WritePlans(record);
  return status;
}

absl::Status SqliteJobStore::WriteTokens(const JobRecord& record) {
  absl::Status status;
  if (record.tokens.empty()) return status;
  // Those up to the current group are there.
  for (auto it = record.tokens.lower_bound(record.status.group()); it != record.tokens.end(); ++it) {
    Statement* statement =
        Prepared("INSERT OR IGNORE INTO tokens (job_uid, grp, token) VALUES (?, ?, ?)", &status);
    if (statement == nullptr) return status;
    statement->Bind(1, record.uid());
    statement->Bind(2, it->first);
    statement->Bind(3, it->second);
    status = statement->Run();
    if (!status.ok()) return status;
  }
  Statement* statement = Prepared("DELETE FROM tokens WHERE job_uid = ? AND grp < ?", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, record.uid());
  statement->Bind(2, record.tokens.begin()->first);
  return statement->Run();
}

absl::Status SqliteJobStore::WritePlans(const JobRecord& record) {
  absl::Status status = DeleteBy("DELETE FROM plans WHERE job_uid = ?", record.uid());
  for (const jobs::Plan& plan : record.plans) {
    for (size_t rank = 0; rank < plan.members.size() && status.ok(); ++rank) {
      Statement* statement = Prepared(
          "INSERT INTO plans (job_uid, grp, rank, replica_id, node_id, firm, offered, since, ready_after, "
          "broken) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
          &status);
      if (statement == nullptr) return status;
      statement->Bind(1, record.uid());
      statement->Bind(2, plan.group);
      statement->Bind(3, static_cast<int64_t>(rank));
      statement->Bind(4, plan.members[rank].replica_id);
      statement->Bind(5, plan.members[rank].node);
      statement->Bind(6, int64_t{plan.firm});
      statement->Bind(7, int64_t{plan.offered});
      statement->Bind(8, ToMicros(plan.since));
      statement->Bind(9, absl::ToInt64Microseconds(plan.ready_after));
      statement->Bind(10, int64_t{plan.broken});
      status = statement->Run();
    }
  }
  return status;
}

absl::Status SqliteJobStore::UpdateJob(const JobRecord& record) {
  absl::Status status;
  Statement* statement = Prepared(
      "UPDATE jobs SET phase = ?, grp = ?, status = ?, running_since = ?, unschedulable = ?, "
      "rescaling_since = ?, rescale_note = ?, newcomer_failures = ? WHERE uid = ?",
      &status);
  if (statement == nullptr) return status;
  statement->Bind(1, static_cast<int64_t>(record.status.phase()));
  statement->Bind(2, record.status.group());
  statement->BindBlob(3, record.status.SerializeAsString());
  statement->Bind(4, ToMicros(record.running_since));
  statement->Bind(5, int64_t{record.unschedulable});
  statement->Bind(6, ToMicros(record.rescaling_since));
  statement->Bind(7, record.rescale_note);
  statement->Bind(8, int64_t{record.newcomer_failures});
  statement->Bind(9, record.uid());
  return statement->Run();
}

absl::Status SqliteJobStore::InsertJob(const JobRecord& record) {
  absl::Status status;
  Statement* statement = Prepared(
      "INSERT INTO jobs (sequence, uid, namespace, name, phase, grp, spec, status, running_since, "
      "unschedulable, rescaling_since, rescale_note, newcomer_failures) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      &status);
  if (statement == nullptr) return status;
  statement->Bind(1, record.sequence);
  statement->Bind(2, record.uid());
  statement->Bind(3, record.job->namespace_());
  statement->Bind(4, record.job->name());
  statement->Bind(5, static_cast<int64_t>(record.status.phase()));
  statement->Bind(6, record.status.group());
  statement->BindBlob(7, record.job->SerializeAsString());
  statement->BindBlob(8, record.status.SerializeAsString());
  statement->Bind(9, ToMicros(record.running_since));
  statement->Bind(10, int64_t{record.unschedulable});
  statement->Bind(11, ToMicros(record.rescaling_since));
  statement->Bind(12, record.rescale_note);
  statement->Bind(13, int64_t{record.newcomer_failures});
  return statement->Run();
}

absl::Status SqliteJobStore::WriteReplica(const ReplicaRecord& record) {
  absl::Status status;
  Statement* statement = Prepared(
      "INSERT OR REPLACE INTO replicas (job_uid, grp, rank, replica, stop_requested, node_leaving, loss, "
      "address, current_grp, current_rank, live, in_place, judged, master_port) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
      &status);
  if (statement == nullptr) return status;
  statement->Bind(1, record.job_uid);
  statement->Bind(2, record.launch_group);
  statement->Bind(3, int64_t{record.launch_rank});
  statement->BindBlob(4, record.replica.SerializeAsString());
  statement->Bind(5, int64_t{record.stop_requested});
  statement->Bind(6, int64_t{record.node_leaving});
  statement->Bind(7, static_cast<int64_t>(record.loss));
  statement->Bind(8, record.address);
  statement->Bind(9, record.replica.group());
  statement->Bind(10, int64_t{record.replica.rank()});
  statement->Bind(11, int64_t{MayLive(record.replica)});
  statement->Bind(12, int64_t{record.rescales_in_place});
  statement->Bind(13, int64_t{record.judged});
  statement->Bind(14, int64_t{record.master_port});
  return statement->Run();
}

absl::Status SqliteJobStore::WriteNode(const NodeRecord& record) {
  absl::Status status;
  Statement* statement =
      Prepared("INSERT OR REPLACE INTO nodes (node_id, session_id, node) VALUES (?, ?, ?)", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, record.node.node_id());
  statement->Bind(2, record.session_id);
  statement->BindBlob(3, record.node.SerializeAsString());
  return statement->Run();
}

absl::Status SqliteJobStore::WriteEvent(const v1::Event& event) {
  absl::Status status;
  Statement* statement =
      Prepared("INSERT INTO events (id, job_uid, namespace, job, event) VALUES (?, ?, ?, ?, ?)", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, event.id());
  statement->Bind(2, event.job_uid());
  statement->Bind(3, event.namespace_());
  statement->Bind(4, event.job());
  statement->BindBlob(5, event.SerializeAsString());
  return statement->Run();
}

absl::Status SqliteJobStore::RemoveEvent(int64_t id) {
  absl::Status status;
  Statement* statement = Prepared("DELETE FROM events WHERE id = ?", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, id);
  return statement->Run();
}

absl::Status SqliteJobStore::WriteRequest(const RequestRecord& request) {
  absl::Status status;
  Statement* statement = Prepared(
      "INSERT OR REPLACE INTO answers (caller, namespace, request_id, method, content, time, response) "
      "VALUES (?, ?, ?, ?, ?, ?, ?)",
      &status);
  if (statement == nullptr) return status;
  statement->Bind(1, request.key.caller);
  statement->Bind(2, request.key.name_space);
  statement->Bind(3, request.key.request_id);
  statement->Bind(4, request.key.method);
  statement->BindBlob(5, request.key.content);
  statement->Bind(6, ToMicros(request.time));
  statement->BindBlob(7, request.response);
  return statement->Run();
}

absl::Status SqliteJobStore::WriteDeletion(const FileDeletion& deletion) {
  absl::Status status;
  Statement* statement =
      Prepared("INSERT OR REPLACE INTO file_deletions (node_id, namespace, job, job_uid) VALUES (?, ?, ?, ?)",
               &status);
  if (statement == nullptr) return status;
  statement->Bind(1, deletion.node_id);
  statement->Bind(2, deletion.name_space);
  statement->Bind(3, deletion.job);
  statement->Bind(4, deletion.job_uid);
  return statement->Run();
}

absl::Status SqliteJobStore::RemoveDeletion(const std::string& node_id, const std::string& job_uid) {
  absl::Status status;
  Statement* statement = Prepared("DELETE FROM file_deletions WHERE node_id = ? AND job_uid = ?", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, node_id);
  statement->Bind(2, job_uid);
  return statement->Run();
}

absl::Status SqliteJobStore::WriteQuota(const v1::NamespaceQuota& quota) {
  absl::Status status;
  Statement* statement = Prepared("INSERT OR REPLACE INTO quotas (namespace, quota) VALUES (?, ?)", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, quota.namespace_());
  statement->BindBlob(2, quota.SerializeAsString());
  return statement->Run();
}

absl::Status SqliteJobStore::DeleteBy(const std::string& sql, const std::string& key) {
  absl::Status status;
  Statement* statement = Prepared(sql, &status);
  if (statement == nullptr) return status;
  statement->Bind(1, key);
  return statement->Run();
}

absl::StatusOr<StoreContents> SqliteJobStore::Load() {
  MutexLock lock(&mutex_);
  return ReadStore(&database_);
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
                             ? Prepared(
                                   "SELECT id, job_uid, namespace, job, event FROM events "
                                   "WHERE id > ?1 AND namespace = ?2 ORDER BY id LIMIT ?3",
                                   &status)
                             : Prepared(
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
  Statement* statement = Prepared(
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
  Statement* statement = Prepared("DELETE FROM answers WHERE time < ?", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, ToMicros(time));
  return Judge(statement->Run());
}

absl::StatusOr<std::optional<absl::Time>> SqliteJobStore::TimeOfEventFrom(int64_t id) {
  absl::Status status;
  Statement* statement = Prepared("SELECT event FROM events WHERE id >= ? ORDER BY id", &status);
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
  Statement* statement =
      Prepared("DELETE FROM events WHERE id < ? AND id < (SELECT MIN(id) FROM events) + 10000", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, first);
  return Judge(statement->Run());
}

absl::Status SqliteJobStore::PruneReplicas(const std::string& job_uid, int keep) {
  MutexLock lock(&mutex_);
  absl::Status status;
  // The key is in the order of the launches.
  Statement* statement = Prepared(
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
