#include "services/supervisor/state/node_use.h"

#include <algorithm>
#include <string>

#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {

JobShare ShareOf(const JobEntry& job) {
  JobShare share;
  if (jobs::IsTerminal(job.record.state.phase)) return share;
  share.need = Amounts(job.record.job->spec().template_().resources());
  for (const std::string& id : job.record.decision.nodes) ++share.wanted[id];
  for (const auto& replica : job.replicas) {
    if (!IsLive(replica->replica)) continue;
    const std::string& id = replica->replica.node_id();
    ++share.live[id];
    const auto wanted = share.wanted.find(id);
    if (wanted == share.wanted.end() || replica->stop_requested) continue;
    int& kept = share.kept[id];
    kept = std::min(kept + 1, wanted->second);
  }
  return share;
}

void NodeUse::Add(const JobShare& share, int64_t times) {
  for (const auto& [id, count] : share.live) {
    Use& use = nodes_[id];
    use.replicas += times * count;
    use.held.Add(share.need, times * count);
    changed_.insert(id);
  }
  for (const auto& [id, count] : share.kept) nodes_[id].kept.Add(share.need, times * count);
  for (const auto& [id, count] : share.wanted) {
    nodes_[id].wanted.Add(share.need, times * count);
    changed_.insert(id);
  }
}

const NodeUse::Use* NodeUse::Find(const std::string& node_id) const {
  const auto it = nodes_.find(node_id);
  return it == nodes_.end() ? nullptr : &it->second;
}

}  // namespace adaptdl::supervisor
