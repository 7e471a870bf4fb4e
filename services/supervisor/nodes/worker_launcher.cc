#include "services/supervisor/nodes/worker_launcher.h"

#include <memory>
#include <string>
#include <utility>

namespace adaptdl::supervisor {

void WorkerLauncher::Attach(const std::string& node_id, int64_t session_id,
                            const std::shared_ptr<NodeLink>& link) {
  std::shared_ptr<NodeLink> older;
  {
    MutexLock lock(&mutex_);
    Entry& entry = links_[node_id];
    older = entry.link.lock();
    entry = {session_id, link};
  }
  if (older != nullptr && older != link) {
    older->EndWith(absl::AbortedError("a newer stream of this node has taken over"));
  }
}

void WorkerLauncher::Detach(const std::string& node_id, const NodeLink* link) {
  MutexLock lock(&mutex_);
  const auto it = links_.find(node_id);
  if (it == links_.end()) return;
  const std::shared_ptr<NodeLink> current = it->second.link.lock();
  if (current == nullptr || current.get() == link) links_.erase(it);
}

void WorkerLauncher::Launch(const std::string& node_id, const v1::LaunchReplica& launch) {
  v1::ConnectResponse command;
  *command.mutable_launch() = launch;
  Send(node_id, std::move(command));
}

void WorkerLauncher::Stop(const std::string& node_id, const v1::StopReplica& stop) {
  v1::ConnectResponse command;
  *command.mutable_stop() = stop;
  Send(node_id, std::move(command));
}

void WorkerLauncher::Acknowledge(const std::string& node_id, const std::string& replica_id) {
  v1::ConnectResponse command;
  command.mutable_acknowledge()->set_replica_id(replica_id);
  Send(node_id, std::move(command));
}

void WorkerLauncher::DeleteJobFiles(const std::string& node_id, const v1::DeleteJobFiles& files) {
  v1::ConnectResponse command;
  *command.mutable_delete_job_files() = files;
  Send(node_id, std::move(command));
}

bool WorkerLauncher::Connected(const std::string& node_id) const {
  MutexLock lock(&mutex_);
  const auto it = links_.find(node_id);
  return it != links_.end() && !it->second.link.expired();
}

void WorkerLauncher::EndSession(const std::string& node_id, int64_t current_session,
                                const absl::Status& why) {
  std::shared_ptr<NodeLink> link;
  {
    MutexLock lock(&mutex_);
    const auto it = links_.find(node_id);
    if (it == links_.end() || it->second.session_id == current_session) return;
    link = it->second.link.lock();
    links_.erase(it);
  }
  if (link != nullptr) link->EndWith(why);
}

void WorkerLauncher::Send(const std::string& node_id, v1::ConnectResponse command) {
  std::shared_ptr<NodeLink> link;
  {
    MutexLock lock(&mutex_);
    const auto it = links_.find(node_id);
    if (it != links_.end()) link = it->second.link.lock();
  }
  if (link != nullptr) link->Send(std::move(command));
}

}  // namespace adaptdl::supervisor
