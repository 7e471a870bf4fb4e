#include "services/supervisor/store/stored_messages.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/messages/text.h"
#include "services/supervisor/store/job_codec.h"

namespace adaptdl::supervisor {
namespace {

std::string WhereKey(const StoredMessage& place) {
  return absl::StrJoin(place.key, " AND ",
                       [](std::string* out, const char* column) { absl::StrAppend(out, column, " = ?"); });
}

// A member of a job's group is not to be missing: it counts as lost, which the supervisor writes down.
const char* OnlyPast(const DamagedRow& row) {
  return row.table == "replicas" ? " AND current_grp != (SELECT grp FROM jobs WHERE uid = job_uid)" : "";
}

// The key's values are text: SQLite compares a number's column with them as numbers.
void BindKey(const DamagedRow& row, int first, Statement* statement) {
  for (size_t i = 0; i < row.key.size(); ++i) {
    statement->Bind(first + static_cast<int>(i), absl::string_view(row.key[i]));
  }
}

absl::Status Replace(Database* database, const DamagedRow& row, const std::string& bytes) {
  const StoredMessage& place = FindStoredMessage(row.table, row.column);
  absl::StatusOr<Statement> statement = Statement::Prepare(
      database->handle(),
      absl::StrCat("UPDATE ", place.table, " SET ", place.column, " = ? WHERE ", WhereKey(place)));
  if (!statement.ok()) return statement.status();
  statement->BindBlob(1, bytes);
  BindKey(row, 2, &*statement);
  return statement->Run();
}

// Whether nobody has noted it before.
absl::StatusOr<bool> Note(Database* database, const DamagedRow& row, const std::string& bytes,
                          absl::Time now) {
  absl::StatusOr<Statement> statement = Statement::Prepare(
      database->handle(),
      "INSERT OR IGNORE INTO unreadable (tbl, col, key, time, bytes) VALUES (?, ?, ?, ?, ?)");
  if (!statement.ok()) return statement.status();
  statement->Bind(1, row.table);
  statement->Bind(2, row.column);
  statement->Bind(3, absl::StrJoin(row.key, "/"));
  statement->Bind(4, absl::ToUnixMicros(now));
  statement->BindBlob(5, bytes);
  if (const absl::Status status = statement->Run(); !status.ok()) return status;
  return sqlite3_changes(database->handle()) > 0;
}

absl::Status ReadMessagesOf(const StoredMessage& place, Database* database, MessageReader* reader) {
  const bool of_job = *place.job_columns != '\0';
  absl::StatusOr<Statement> statement = Statement::Prepare(
      database->handle(),
      absl::StrCat("SELECT t.", place.column, ", ", of_job ? place.job_columns : "'', '', ''", ", ",
                   absl::StrJoin(place.key, ", ",
                                 [](std::string* out, const char* c) { absl::StrAppend(out, "t.", c); }),
                   " FROM ", place.table, " t",
                   of_job && absl::string_view(place.table) != "jobs"
                       ? " LEFT JOIN jobs j ON t.job_uid = j.uid"
                       : ""));
  if (!statement.ok()) return statement.status();
  const std::unique_ptr<google::protobuf::Message> message(place.type->New());
  return statement->ForEachRow([&] {
    DamagedRow row{place.table, place.column, {}, statement->Text(1), statement->Text(2), statement->Text(3)};
    for (size_t i = 0; i < place.key.size(); ++i) {
      row.key.push_back(statement->Text(4 + static_cast<int>(i)));
    }
    reader->Read(std::move(row), statement->Text(0), message.get());
    return absl::OkStatus();
  });
}

}  // namespace

const std::vector<StoredMessage>& StoredMessages() {
  static const auto* messages = new std::vector<StoredMessage>{
      {"jobs", "spec", {"uid"}, &v1::Job::default_instance(), "t.namespace, t.name, t.uid"},
      {"jobs", "state", {"uid"}, &StoredJob::default_instance(), "t.namespace, t.name, t.uid"},
      {"jobs", "status", {"uid"}, &v1::JobStatus::default_instance(), "t.namespace, t.name, t.uid"},
      {"replicas",
       "replica",
       {"job_uid", "grp", "rank"},
       &v1::Replica::default_instance(),
       "j.namespace, j.name, t.job_uid"},
      {"events", "event", {"id"}, &v1::Event::default_instance(), "t.namespace, t.job, t.job_uid"},
      {"nodes", "node", {"node_id"}, &v1::Node::default_instance(), ""},
      {"quotas", "quota", {"namespace"}, &v1::NamespaceQuota::default_instance(), ""},
  };
  return *messages;
}

const StoredMessage& FindStoredMessage(absl::string_view table, absl::string_view column) {
  for (const StoredMessage& message : StoredMessages()) {
    if (message.table == table && message.column == column) return message;
  }
  return StoredMessages().front();  // Callers name those that are there.
}

bool MessageReader::Read(DamagedRow row, const std::string& bytes, google::protobuf::Message* message) {
  const messages::Parsed parsed = messages::ParseMending(bytes, message);
  if (parsed == messages::Parsed::kGood) return true;
  row.mended = parsed == messages::Parsed::kMended;
  std::string kept = row.mended ? message->SerializeAsString() : bytes;
  found_.push_back({std::move(row), std::move(kept)});
  return found_.back().row.mended;
}

absl::Status MessageReader::WriteBack(Database* database, absl::Time now) {
  for (Found& found : found_) {
    if (found.row.mended) {
      if (const absl::Status status = Replace(database, found.row, found.bytes); !status.ok()) return status;
      continue;
    }
    const absl::StatusOr<bool> is_new = Note(database, found.row, found.bytes, now);
    if (!is_new.ok()) return is_new.status();
    found.row.is_new = *is_new;
  }
  return absl::OkStatus();
}

std::vector<DamagedRow> MessageReader::damaged() const {
  std::vector<DamagedRow> rows;
  rows.reserve(found_.size());
  for (const Found& found : found_) rows.push_back(found.row);
  return rows;
}

absl::Status ReadAllMessages(Database* database, MessageReader* reader) {
  for (const StoredMessage& place : StoredMessages()) {
    if (const absl::Status status = ReadMessagesOf(place, database, reader); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RemoveUnreadable(Database* database, const MessageReader& reader) {
  for (const DamagedRow& row : reader.damaged()) {
    if (row.mended) continue;
    const StoredMessage& place = FindStoredMessage(row.table, row.column);
    absl::StatusOr<Statement> statement = Statement::Prepare(
        database->handle(),
        absl::StrCat("DELETE FROM ", place.table, " WHERE ", WhereKey(place), OnlyPast(row)));
    if (!statement.ok()) return statement.status();
    BindKey(row, 1, &*statement);
    if (const absl::Status status = statement->Run(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace adaptdl::supervisor
