// Writes records into the tables of the SQLite store, within a transaction that the caller has begun. Not
// thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_STORE_WRITER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_STORE_WRITER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "services/supervisor/store/job_store.h"
#include "services/supervisor/store/statements.h"

namespace adaptdl::supervisor {

class StoreWriter {
 public:
  // `statements` outlive it.
  explicit StoreWriter(Statements* statements) : statements_(statements) {}

  // After an error the transaction is to be rolled back.
  absl::Status Write(const WriteBatch& batch);

 private:
  absl::Status WriteJob(const JobRecord& record);
  absl::Status UpdateJob(const JobRecord& record);
  absl::Status InsertJob(const JobRecord& record);
  absl::Status WriteTokens(const JobRecord& record);
  absl::Status WriteReplica(const ReplicaRecord& record);
  absl::Status WriteNode(const NodeRecord& record);
  absl::Status WriteEvent(const v1::Event& event);
  absl::Status RemoveEvent(int64_t id);
  absl::Status WriteRequest(const RequestRecord& request);
  absl::Status WriteDeletion(const FileDeletion& deletion);
  absl::Status RemoveDeletion(const std::string& node_id, const std::string& job_uid);
  absl::Status WriteQuota(const v1::NamespaceQuota& quota);
  absl::Status WriteJoin(const JoinRecord& join);
  absl::Status DeleteBy(const std::string& sql, const std::string& key);

  Statements* const statements_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_STORE_WRITER_H_
