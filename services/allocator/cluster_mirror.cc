#include "services/allocator/cluster_mirror.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "libs/messages/proto_time.h"
#include "services/allocator/snapshot_converter.h"

namespace adaptdl::allocator {
namespace {

bool Runs(const v1::Job& job) {
  return job.status().phase() == v1::JOB_PHASE_RUNNING || job.status().phase() == v1::JOB_PHASE_RESCALING;
}

// Whether it has been said when it goes away.
bool Leaves(const v1::Node& node) {
  return node.status().phase() == v1::NODE_PHASE_DRAINING && node.status().has_preemption_time();
}

void AddTo(google::protobuf::Duration* duration, absl::Duration more) {
  *duration = messages::ToProto(messages::ToDuration(*duration) + more);
}

}  // namespace

void ClusterMirror::BeginStream() { begun_.reset(); }

bool ClusterMirror::Take(v1::WatchClusterResponse message, absl::Time now) {
  const bool more = message.more();
  // A page continues what is of its kind.
  if (begun_.has_value() && begun_->has_snapshot() == message.has_snapshot()) {
    begun_->MergeFrom(message);
    message = std::move(*begun_);
  }
  begun_.reset();
  if (more) {
    begun_ = std::move(message);
    return false;
  }
  if (message.has_snapshot()) return TakeSnapshot(std::move(*message.mutable_snapshot()), now);
  if (!message.has_change() || !known_) return false;
  return TakeChange(std::move(*message.mutable_change()), now);
}

bool ClusterMirror::TakeSnapshot(v1::ClusterSnapshot snapshot, absl::Time now) {
  const ClusterMirror before = std::exchange(*this, ClusterMirror());
  known_ = true;
  version_ = snapshot.version();
  bool matters = !before.known_ || version_ != before.version_;
  for (v1::Job& job : *snapshot.mutable_jobs()) {
    const auto known = before.places_.find(job.uid());
    matters = matters || known == before.places_.end() ||
              before.jobs_.at(known->second).hints != HintSignature(job);
    Put(std::move(job), now);
  }
  for (v1::Node& node : *snapshot.mutable_nodes()) nodes_[node.node_id()] = std::move(node);
  *quotas_.mutable_quotas() = std::move(*snapshot.mutable_quotas());
  return matters || jobs_.size() != before.jobs_.size();
}

bool ClusterMirror::TakeChange(v1::ClusterChange change, absl::Time now) {
  bool matters = change.version() != version_;
  version_ = change.version();
  for (v1::Job& job : *change.mutable_jobs()) matters = Put(std::move(job), now) || matters;
  for (const std::string& uid : change.gone_jobs()) {
    const auto place = places_.find(uid);
    if (place == places_.end()) continue;
    jobs_.erase(place->second);
    places_.erase(place);
  }
  for (v1::Node& node : *change.mutable_nodes()) {
    const std::string id = node.node_id();
    v1::Node& known = nodes_[id];
    node_leaves_ = node_leaves_ || (Leaves(node) && !Leaves(known));
    known = std::move(node);
  }
  for (const std::string& id : change.gone_nodes()) nodes_.erase(id);
  if (change.has_quotas()) quotas_ = std::move(*change.mutable_quotas());
  return matters;
}

bool ClusterMirror::Put(v1::Job job, absl::Time now) {
  const auto [place, is_new] = places_.emplace(job.uid(), last_place_ + 1);
  if (is_new) ++last_place_;
  Entry& entry = jobs_[place->second];
  std::string hints = HintSignature(job);
  const bool differs = is_new || hints != entry.hints;
  entry = {std::move(job), now, std::move(hints)};
  return differs;
}

v1::ClusterSnapshot ClusterMirror::Snapshot(absl::Time now) const {
  v1::ClusterSnapshot snapshot;
  snapshot.set_version(version_);
  for (const auto& [place, entry] : jobs_) {
    v1::Job* job = snapshot.add_jobs();
    *job = entry.job;
    if (Runs(*job)) {
      AddTo(job->mutable_status()->mutable_running_time(), std::max(now - entry.told, absl::ZeroDuration()));
    }
  }
  for (const auto& [id, node] : nodes_) *snapshot.add_nodes() = node;
  *snapshot.mutable_quotas() = quotas_.quotas();
  return snapshot;
}

}  // namespace adaptdl::allocator
