// Reaches replicas through the workers' streams of NodeService. Commands to a node without a stream are
// dropped: when it connects, NodeManager::ReconcileNode() orders what is still wanted. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_NODES_WORKER_LAUNCHER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_NODES_WORKER_LAUNCHER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "libs/base/mutex.h"
#include "services/supervisor/jobs/replica_launcher.h"

namespace adaptdl::supervisor {

// One worker's stream.
class NodeLink {
 public:
  virtual ~NodeLink() = default;
  // Queues the command. Never waits.
  virtual void Send(v1::ConnectResponse command) = 0;
  virtual void EndWith(const absl::Status& why) = 0;
};

class WorkerLauncher final : public ReplicaLauncher {
 public:
  // Makes `link` the node's stream, and ends an older one with ABORTED.
  void Attach(const std::string& node_id, int64_t session_id, const std::shared_ptr<NodeLink>& link);
  void Detach(const std::string& node_id, const NodeLink* link);

  void Launch(const std::string& node_id, const v1::LaunchReplica& launch) override;
  void Stop(const std::string& node_id, const v1::StopReplica& stop) override;
  void Acknowledge(const std::string& node_id, const std::string& replica_id) override;
  void DeleteJobFiles(const std::string& node_id, const v1::DeleteJobFiles& files) override;
  bool Connected(const std::string& node_id) const override;
  void EndSession(const std::string& node_id, int64_t current_session, const absl::Status& why) override;

 private:
  struct Entry {
    int64_t session_id = 0;
    std::weak_ptr<NodeLink> link;
  };

  void Send(const std::string& node_id, v1::ConnectResponse command);

  mutable Mutex mutex_;
  std::map<std::string, Entry> links_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_NODES_WORKER_LAUNCHER_H_
