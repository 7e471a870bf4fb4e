#include "services/supervisor/history/history_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "libs/messages/proto_time.h"
#include "libs/service/log.h"
#include "services/supervisor/history/figures.h"

namespace adaptdl::supervisor {
namespace {

constexpr int kVersion = 1;
// A reader, or another supervisor, is soon done.
constexpr int kBusyMilliseconds = 2000;

constexpr char kSchema[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE IF NOT EXISTS histories (uid TEXT PRIMARY KEY, resolution INTEGER NOT NULL,"
    " changes BLOB NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS points (id INTEGER PRIMARY KEY, uid TEXT NOT NULL, points BLOB NOT NULL);"
    "CREATE INDEX IF NOT EXISTS points_by_uid ON points (uid);"
    "PRAGMA user_version = 1;"
    "COMMIT";

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("history database: ", what));
}

absl::Status MakeHistoryFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  // What namespaces do is nobody else's business.
  if (error || chmod(folder.c_str(), 0700) != 0) {
    return ErrnoStatus(error ? error.value() : errno, absl::StrCat("make the folder ", folder));
  }
  return absl::OkStatus();
}

// A log would be shared by memory, which a folder that several machines share has not.
absl::StatusOr<Database> OpenConnection(const std::string& path) {
  absl::StatusOr<Database> database = Database::Open(path);
  if (!database.ok()) return database;
  sqlite3_busy_timeout(database->handle(), kBusyMilliseconds);
  for (const char* pragma : {"PRAGMA journal_mode = TRUNCATE", "PRAGMA synchronous = NORMAL"}) {
    const absl::StatusOr<std::string> result = database->Query(pragma);
    if (!result.ok()) return result.status();
  }
  return database;
}

absl::StatusOr<Database> Prepare(const std::string& path) {
  absl::StatusOr<Database> database = OpenConnection(path);
  if (!database.ok()) return database;
  const absl::StatusOr<std::string> text = database->Query("PRAGMA user_version");
  if (!text.ok()) return text.status();
  int version = 0;
  if (!absl::SimpleAtoi(*text, &version) || version > kVersion) {
    return Damaged(absl::StrCat("is of version ", *text, ", and this program knows up to ", kVersion));
  }
  if (const absl::Status status = database->Execute(kSchema); !status.ok()) return status;
  return database;
}

std::string PathIn(const std::string& folder) { return absl::StrCat(folder, "/history.sqlite"); }

}  // namespace

void HistoryFile::SetAside(const std::string& folder, const absl::Status& why) {
  const std::string path = PathIn(folder);
  // One is enough to look at.
  const std::string kept = absl::StrCat(path, ".damaged");
  std::error_code error;
  std::filesystem::rename(path, kept, error);
  // The journal is that of this file only.
  std::error_code ignored;
  std::filesystem::remove(path + "-journal", ignored);
  log::Warning("the history of jobs can't be read; it is set aside and begun anew",
               {{"error", std::string(why.message())}, {"kept", error ? "" : kept}});
}

absl::StatusOr<std::unique_ptr<HistoryFile>> HistoryFile::Open(const std::string& folder) {
  if (const absl::Status status = MakeHistoryFolder(folder); !status.ok()) return status;
  const std::string path = PathIn(folder);
  absl::StatusOr<Database> writer = Prepare(path);
  if (absl::IsDataLoss(writer.status())) {
    SetAside(folder, writer.status());
    writer = Prepare(path);
  }
  if (!writer.ok()) return writer.status();
  absl::StatusOr<Database> reader = OpenConnection(path);
  if (!reader.ok()) return reader.status();
  return std::unique_ptr<HistoryFile>(new HistoryFile(*std::move(writer), *std::move(reader)));
}

absl::Status HistoryFile::Write(const std::vector<Part>& parts,
                                const std::vector<std::string>& deleted_uids) {
  if (parts.empty() && deleted_uids.empty()) return absl::OkStatus();
  MutexLock lock(&writing_);
  absl::Status status = writer_.database.Execute("BEGIN IMMEDIATE");
  if (!status.ok()) return status;
  status = WriteAll(parts, deleted_uids);
  if (status.ok()) status = writer_.database.Execute("COMMIT");
  // SQLite may have done so.
  if (!status.ok()) writer_.database.Execute("ROLLBACK").IgnoreError();
  return status;
}

absl::Status HistoryFile::WriteAll(const std::vector<Part>& parts,
                                   const std::vector<std::string>& deleted_uids) {
  for (const std::string& uid : deleted_uids) {
    if (const absl::Status status = Delete(uid); !status.ok()) return status;
  }
  for (const Part& part : parts) {
    if (const absl::Status status = WritePart(part); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status HistoryFile::WriteHead(const Part& part) {
  absl::Status status;
  Statement* head = writer_.statements.Find("INSERT OR REPLACE INTO histories VALUES (?1, ?2, ?3)", &status);
  if (head == nullptr) return status;
  head->Bind(1, absl::string_view(part.uid));
  head->Bind(2, absl::ToInt64Microseconds(part.head.resolution));
  v1::GetJobHistoryResponse changes;
  Put(part.head.changes, changes.mutable_changes());
  const std::string change_bytes = changes.SerializeAsString();
  head->BindBlob(3, change_bytes);
  return head->Run();
}

absl::Status HistoryFile::WritePart(const Part& part) {
  absl::Status status;
  if (!part.same_head) status = WriteHead(part);
  if (status.ok() && part.replaces) status = DeletePoints(part.uid);
  if (!status.ok() || part.points.empty()) return status;
  Statement* points = writer_.statements.Find("INSERT INTO points (uid, points) VALUES (?1, ?2)", &status);
  if (points == nullptr) return status;
  v1::GetJobHistoryResponse message;
  for (const v1::HistoryPoint& point : part.points) *message.add_points() = point;
  const std::string point_bytes = message.SerializeAsString();
  points->Bind(1, absl::string_view(part.uid));
  points->BindBlob(2, point_bytes);
  return points->Run();
}

absl::Status HistoryFile::Delete(const std::string& uid) {
  absl::Status status;
  Statement* statement = writer_.statements.Find("DELETE FROM histories WHERE uid = ?1", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, absl::string_view(uid));
  status = statement->Run();
  return status.ok() ? DeletePoints(uid) : status;
}

absl::Status HistoryFile::DeletePoints(const std::string& uid) {
  absl::Status status;
  Statement* statement = writer_.statements.Find("DELETE FROM points WHERE uid = ?1", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, absl::string_view(uid));
  return statement->Run();
}

absl::StatusOr<std::optional<HistoryHead>> HistoryFile::ReadHead(const std::string& uid) {
  MutexLock lock(&reading_);
  absl::Status status;
  Statement* statement =
      reader_.statements.Find("SELECT resolution, changes FROM histories WHERE uid = ?1", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, absl::string_view(uid));
  std::optional<HistoryHead> found;
  status = statement->ForEachRow([&] {
    HistoryHead& head = found.emplace();
    head.resolution = std::max(absl::Microseconds(statement->Integer(0)), absl::Seconds(1));
    v1::GetJobHistoryResponse message;
    if (message.ParseFromString(statement->Text(1))) head.changes = FromMessages(message.changes());
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return found;
}

absl::StatusOr<std::vector<v1::HistoryPoint>> HistoryFile::ReadPoints(const std::string& uid) {
  MutexLock lock(&reading_);
  absl::Status status;
  Statement* statement =
      reader_.statements.Find("SELECT points FROM points WHERE uid = ?1 ORDER BY id", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, absl::string_view(uid));
  std::vector<v1::HistoryPoint> points;
  status = statement->ForEachRow([&] {
    v1::GetJobHistoryResponse message;
    if (!message.ParseFromString(statement->Text(0))) return absl::OkStatus();
    for (v1::HistoryPoint& point : *message.mutable_points()) points.push_back(std::move(point));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  DropOverlaps(&points);
  return points;
}

absl::StatusOr<std::vector<std::string>> HistoryFile::ListUids() {
  MutexLock lock(&reading_);
  absl::Status status;
  Statement* statement = reader_.statements.Find("SELECT uid FROM histories", &status);
  if (statement == nullptr) return status;
  std::vector<std::string> uids;
  status = statement->ForEachRow([&] {
    uids.push_back(statement->Text(0));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return uids;
}

}  // namespace adaptdl::supervisor
