// How the supervisor reaches replicas, whatever runs them: workers over NodeService (worker_launcher.h), or
// the pods of a Kubernetes cluster. Commands are queued and carried out as soon as the node can be reached;
// none waits. What becomes of them is observed: implementations report to the managers of nodes
// (ReconcileNode, ObserveReplica, NoticePreemption), which repeats commands whose effect it does not see.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_JOBS_REPLICA_LAUNCHER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_JOBS_REPLICA_LAUNCHER_H_

#include <string>

#include "absl/status/status.h"
#include "adaptdl/v1/node_service.pb.h"

namespace adaptdl::supervisor {

class ReplicaLauncher {
 public:
  virtual ~ReplicaLauncher() = default;

  // Starts a replica on the node, unless it was started before.
  virtual void Launch(const std::string& node_id, const v1::LaunchReplica& launch) = 0;
  virtual void Stop(const std::string& node_id, const v1::StopReplica& stop) = 0;
  // The end of the replica is on disk.
  virtual void Acknowledge(const std::string& node_id, const std::string& replica_id) = 0;
  virtual void DeleteJobFiles(const std::string& node_id, const v1::DeleteJobFiles& files) = 0;
  // Whether commands to the node are delivered now. Asked within changes: it must not look into the state.
  virtual bool Connected(const std::string& node_id) const = 0;
  // Ends the node's session, if it is not `current_session`.
  virtual void EndSession(const std::string& node_id, int64_t current_session, const absl::Status& why) = 0;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_JOBS_REPLICA_LAUNCHER_H_
