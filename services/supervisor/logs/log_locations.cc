#include "services/supervisor/logs/log_locations.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "services/supervisor/calls/pages.h"

namespace adaptdl::supervisor {

absl::StatusOr<std::vector<LogLocation>> LogLocations::FindLogs(const std::string& uid) const {
  absl::StatusOr<std::vector<ReplicaRecord>> replicas = store_->ListReplicas(uid);
  if (!replicas.ok()) return replicas.status();
  const std::shared_ptr<const JobEntry> job = index_->FindJob(uid);
  std::vector<LogLocation> locations;
  for (ReplicaRecord& record : *replicas) {
    LogLocation& location = locations.emplace_back();
    if (job != nullptr) location.name_space = job->record.job->namespace_();
    location.job_uid = uid;
    location.replica = std::move(record.replica);
    location.first_group = record.launch_group;
    const std::shared_ptr<const NodeEntry> node = index_->FindNode(location.replica.node_id());
    if (node != nullptr && node->phase() != v1::NODE_PHASE_LOST) {
      location.worker_address = node->record.node.worker_address();
    }
  }
  return locations;
}

std::vector<std::string> LogLocations::FindFileServers(const std::string& uid) const {
  std::set<std::string> preferred;
  const std::shared_ptr<const JobEntry> job = index_->FindJob(uid);
  if (job != nullptr) {
    for (const auto& replica : job->replicas) preferred.insert(replica->replica.node_id());
  }
  std::vector<std::string> likely;
  std::vector<std::string> others;
  std::string after;
  while (true) {
    const std::vector<ReadIndex::Node> batch = index_->NodesAfter(after, kReadBatch);
    for (const ReadIndex::Node& node : batch) {
      after = node.entry->id();
      if (node.entry->phase() == v1::NODE_PHASE_LOST) continue;
      (preferred.count(after) > 0 ? likely : others).push_back(node.entry->record.node.worker_address());
    }
    if (batch.size() < kReadBatch) break;
  }
  likely.insert(likely.end(), others.begin(), others.end());
  return likely;
}

}  // namespace adaptdl::supervisor
