#include "services/supervisor/store/store_writer.h"

#include <string>

#include "services/supervisor/store/convert.h"
#include "services/supervisor/store/cost_rows.h"
#include "services/supervisor/store/job_codec.h"
#include "services/supervisor/store/sqlite.h"
#include "services/supervisor/store/stored_messages.h"

namespace adaptdl::supervisor {
namespace {

bool MayLive(const v1::Replica& replica) {
  return replica.state() == v1::REPLICA_STATE_LAUNCHING || replica.state() == v1::REPLICA_STATE_RUNNING;
}

}  // namespace

absl::Status StoreWriter::Write(const WriteBatch& batch) {
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
  status.Update(WriteCosts(batch.costs, statements_));
  for (const std::string& id : batch.delete_joins)
    status.Update(DeleteBy("DELETE FROM joins WHERE id = ?", id));
  for (const JoinRecord& join : batch.put_joins) status.Update(WriteJoin(join));
  return status;
}

absl::Status StoreWriter::WriteJob(const JobRecord& record) {
  absl::Status status = UpdateJob(record);
  if (status.ok() && sqlite3_changes(statements_->database()) == 0) status = InsertJob(record);
  if (status.ok()) status = WriteTokens(record);
  return status;
}

absl::Status StoreWriter::WriteTokens(const JobRecord& record) {
  absl::Status status;
  if (record.tokens.empty()) return status;
  // Those up to the current group are there.
  for (auto it = record.tokens.lower_bound(record.state.group); it != record.tokens.end(); ++it) {
    Statement* statement =
        statements_->Find("INSERT OR IGNORE INTO tokens (job_uid, grp, token) VALUES (?, ?, ?)", &status);
    if (statement == nullptr) return status;
    statement->Bind(1, record.uid());
    statement->Bind(2, it->first);
    statement->Bind(3, it->second);
    status = statement->Run();
    if (!status.ok()) return status;
  }
  Statement* statement = statements_->Find("DELETE FROM tokens WHERE job_uid = ? AND grp < ?", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, record.uid());
  statement->Bind(2, record.tokens.begin()->first);
  return statement->Run();
}

absl::Status StoreWriter::UpdateJob(const JobRecord& record) {
  absl::Status status;
  Statement* statement =
      statements_->Find("UPDATE jobs SET phase = ?, grp = ?, state = ?, status = x'' WHERE uid = ?", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, static_cast<int64_t>(ToProto(record.state.phase)));
  statement->Bind(2, record.state.group);
  statement->BindBlob(3, ToStored(record).SerializeAsString());
  statement->Bind(4, record.uid());
  return statement->Run();
}

absl::Status StoreWriter::InsertJob(const JobRecord& record) {
  absl::Status status;
  Statement* statement = statements_->Find(
      "INSERT INTO jobs (sequence, uid, namespace, name, phase, grp, spec, state, status) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, x'')",
      &status);
  if (statement == nullptr) return status;
  statement->Bind(1, record.sequence);
  statement->Bind(2, record.uid());
  statement->Bind(3, record.job->namespace_());
  statement->Bind(4, record.job->name());
  statement->Bind(5, static_cast<int64_t>(ToProto(record.state.phase)));
  statement->Bind(6, record.state.group);
  statement->BindBlob(7, record.job->SerializeAsString());
  statement->BindBlob(8, ToStored(record).SerializeAsString());
  return statement->Run();
}

absl::Status StoreWriter::WriteReplica(const ReplicaRecord& record) {
  absl::Status status;
  Statement* statement = statements_->Find(
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
  statement->Bind(13, int64_t{record.end_handled});
  statement->Bind(14, int64_t{record.master_port});
  return statement->Run();
}

absl::Status StoreWriter::WriteNode(const NodeRecord& record) {
  absl::Status status;
  Statement* statement =
      statements_->Find("INSERT OR REPLACE INTO nodes (node_id, session_id, node) VALUES (?, ?, ?)", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, record.node.node_id());
  statement->Bind(2, record.session_id);
  statement->BindBlob(3, record.node.SerializeAsString());
  return statement->Run();
}

absl::Status StoreWriter::WriteEvent(const v1::Event& event) {
  absl::Status status;
  Statement* statement = statements_->Find(
      "INSERT INTO events (id, job_uid, namespace, job, event) VALUES (?, ?, ?, ?, ?)", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, event.id());
  statement->Bind(2, event.job_uid());
  statement->Bind(3, event.namespace_());
  statement->Bind(4, event.job());
  statement->BindBlob(5, event.SerializeAsString());
  return statement->Run();
}

absl::Status StoreWriter::RemoveEvent(int64_t id) {
  absl::Status status;
  Statement* statement = statements_->Find("DELETE FROM events WHERE id = ?", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, id);
  return statement->Run();
}

absl::Status StoreWriter::WriteRequest(const RequestRecord& request) {
  absl::Status status;
  Statement* statement = statements_->Find(
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

absl::Status StoreWriter::WriteDeletion(const FileDeletion& deletion) {
  absl::Status status;
  Statement* statement = statements_->Find(
      "INSERT OR REPLACE INTO file_deletions (node_id, namespace, job, job_uid) VALUES (?, ?, ?, ?)",
      &status);
  if (statement == nullptr) return status;
  statement->Bind(1, deletion.node_id);
  statement->Bind(2, deletion.name_space);
  statement->Bind(3, deletion.job);
  statement->Bind(4, deletion.job_uid);
  return statement->Run();
}

absl::Status StoreWriter::RemoveDeletion(const std::string& node_id, const std::string& job_uid) {
  absl::Status status;
  Statement* statement =
      statements_->Find("DELETE FROM file_deletions WHERE node_id = ? AND job_uid = ?", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, node_id);
  statement->Bind(2, job_uid);
  return statement->Run();
}

absl::Status StoreWriter::WriteQuota(const v1::NamespaceQuota& quota) {
  absl::Status status;
  Statement* statement =
      statements_->Find("INSERT OR REPLACE INTO quotas (namespace, quota) VALUES (?, ?)", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, quota.namespace_());
  statement->BindBlob(2, quota.SerializeAsString());
  return statement->Run();
}

absl::Status StoreWriter::WriteJoin(const JoinRecord& join) {
  absl::Status status;
  Statement* statement = statements_->Find(
      "INSERT OR REPLACE INTO joins (id, node_id, key, request, expires) VALUES (?, ?, ?, ?, ?)", &status);
  if (statement == nullptr) return status;
  statement->Bind(1, join.id);
  statement->Bind(2, join.node_id);
  statement->Bind(3, join.key);
  statement->Bind(4, join.request);
  statement->Bind(5, ToMicros(join.expires));
  return statement->Run();
}

absl::Status StoreWriter::DeleteBy(const std::string& sql, const std::string& key) {
  absl::Status status;
  Statement* statement = statements_->Find(sql, &status);
  if (statement == nullptr) return status;
  statement->Bind(1, key);
  return statement->Run();
}

}  // namespace adaptdl::supervisor
