// The folders of this node's replicas: <state-dir>/replicas/<replica_id>/ (see shim/records.h for what is in
// one). What the worker adds:
//   launch.json    {"launch": the order as protobuf JSON, "devices": [...], "process": for the shim} (0600)
//   acknowledged   an empty file: the supervisor has stored that the replica ended
//
// Replica ids must have been checked (names.h). Thread-safe, but for two calls about the same replica.

#ifndef ADAPTDL_SERVICES_WORKER_REPLICA_STORE_H_
#define ADAPTDL_SERVICES_WORKER_REPLICA_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adaptdl/v1/node_service.pb.h"
#include "services/worker/shim/records.h"

namespace adaptdl::worker {

struct StoredReplica {
  v1::LaunchReplica launch;
  std::vector<std::string> devices;
  // Absent: the process was not seen running.
  std::optional<RunningRecord> running;
  // Absent: it may still run.
  std::optional<ExitRecord> exit;
  bool acknowledged = false;
};

class ReplicaStore {
 public:
  // `folder`: <state-dir>/replicas; made if need be.
  static absl::StatusOr<ReplicaStore> Create(const std::string& folder);

  std::string FolderOf(const std::string& replica_id) const;

  // Makes the replica's folder, with launch.json in it.
  absl::Status Add(const v1::LaunchReplica& launch, const std::vector<std::string>& devices,
                   const ProcessSpec& process);

  // For a replica that never had a shim.
  absl::Status WriteExit(const std::string& replica_id, const ExitRecord& record);
  absl::Status MarkAcknowledged(const std::string& replica_id);
  absl::Status Remove(const std::string& replica_id);

  // Everything that an earlier worker left. Folders without launch.json are of launches that were never
  // finished and are removed; what can't be read is logged and left alone.
  std::vector<StoredReplica> LoadAll();

  // Bytes of all log files of the replica.
  int64_t LogBytes(const std::string& replica_id) const;

 private:
  explicit ReplicaStore(std::string folder) : folder_(std::move(folder)) {}

  absl::StatusOr<StoredReplica> Load(const std::string& replica_id) const;

  std::string folder_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_REPLICA_STORE_H_
