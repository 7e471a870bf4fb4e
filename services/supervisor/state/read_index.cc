#include "services/supervisor/state/read_index.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace adaptdl::supervisor {
namespace {

// The values of the map from behind `key` on, at most so many.
template <typename Map>
std::vector<typename Map::mapped_type> After(const Map& map, const typename Map::key_type& key, size_t most) {
  std::vector<typename Map::mapped_type> values;
  values.reserve(std::min(most, map.size()));
  for (auto it = map.upper_bound(key); it != map.end() && values.size() < most; ++it)
    values.push_back(it->second);
  return values;
}

bool IsSeen(const NodeEntry& node) { return node.phase() != v1::NODE_PHASE_LOST; }

}  // namespace

void ReadIndex::PutJob(std::shared_ptr<const JobEntry> entry) {
  const JobRecord& record = entry->record;
  const std::string& name_space = record.job->namespace_();
  all_[record.sequence] = entry;
  by_namespace_[name_space][record.sequence] = entry;
  by_name_[{name_space, record.job->name()}] = entry;
  if (jobs::IsTerminal(record.state.phase)) {
    active_.erase(record.sequence);
    finished_work_.Put(record);
  } else {
    active_[record.sequence] = entry;
  }
  const std::string uid = record.uid();
  by_uid_[uid] = std::move(entry);
}

void ReadIndex::EraseJob(const std::string& uid) {
  const auto it = by_uid_.find(uid);
  if (it == by_uid_.end()) return;
  const std::shared_ptr<const JobEntry> entry = std::move(it->second);
  by_uid_.erase(it);
  const JobRecord& record = entry->record;
  const std::string& name_space = record.job->namespace_();
  all_.erase(record.sequence);
  active_.erase(record.sequence);
  finished_work_.Erase(record);
  const auto jobs = by_namespace_.find(name_space);
  jobs->second.erase(record.sequence);
  if (jobs->second.empty()) by_namespace_.erase(jobs);
  // The name may be another job's by now.
  const auto named = by_name_.find({name_space, record.job->name()});
  if (named != by_name_.end() && named->second->record.sequence == record.sequence) by_name_.erase(named);
}

void ReadIndex::Publish(Update update) {
  MutexLock lock(&mutex_);
  version_ = update.version;
  for (const std::string& uid : update.gone_jobs) EraseJob(uid);
  for (auto& job : update.jobs) PutJob(std::move(job));
  for (const std::string& id : update.gone_nodes) nodes_.erase(id);
  for (Node& node : update.nodes) {
    const std::string id = node.entry->id();
    nodes_[id] = std::move(node);
  }
  if (update.has_quotas) quotas_ = std::move(update.quotas);
}

std::shared_ptr<const JobEntry> ReadIndex::FindJob(const std::string& uid) const {
  MutexLock lock(&mutex_);
  const auto it = by_uid_.find(uid);
  return it == by_uid_.end() ? nullptr : it->second;
}

std::shared_ptr<const JobEntry> ReadIndex::FindJob(const std::string& name_space,
                                                   const std::string& name) const {
  MutexLock lock(&mutex_);
  const auto it = by_name_.find({name_space, name});
  return it == by_name_.end() ? nullptr : it->second;
}

std::vector<std::shared_ptr<const JobEntry>> ReadIndex::JobsAfter(const std::string& name_space,
                                                                  int64_t sequence, size_t most) const {
  MutexLock lock(&mutex_);
  if (name_space == "*") return After(all_, sequence, most);
  const auto jobs = by_namespace_.find(name_space);
  if (jobs == by_namespace_.end()) return {};
  return After(jobs->second, sequence, most);
}

std::shared_ptr<const NodeEntry> ReadIndex::FindNode(const std::string& id) const {
  MutexLock lock(&mutex_);
  const auto it = nodes_.find(id);
  return it == nodes_.end() ? nullptr : it->second.entry;
}

std::vector<ReadIndex::Node> ReadIndex::NodesAfter(const std::string& id, size_t most) const {
  MutexLock lock(&mutex_);
  return After(nodes_, id, most);
}

std::vector<v1::NamespaceQuota> ReadIndex::QuotasAfter(const std::string& name_space, size_t most) const {
  MutexLock lock(&mutex_);
  return After(quotas_, name_space, most);
}

void ReadIndex::AddTo(ClusterUpdate* view, const std::shared_ptr<const JobEntry>& job) const {
  view->jobs.push_back(job);
  view->past_work.push_back(finished_work_.Of(job->record));
}

ClusterUpdate ReadIndex::View() const {
  ClusterUpdate view;
  MutexLock lock(&mutex_);
  view.version = version_;
  view.jobs.reserve(active_.size());
  view.past_work.reserve(active_.size());
  for (const auto& [sequence, job] : active_) AddTo(&view, job);
  for (const auto& [id, node] : nodes_) {
    if (IsSeen(*node.entry)) view.nodes.push_back(node.entry);
  }
  std::vector<v1::NamespaceQuota>& quotas = view.quotas.emplace();
  for (const auto& [name, quota] : quotas_) quotas.push_back(quota);
  return view;
}

ClusterUpdate ReadIndex::ViewOfChange(const ClusterNews& news) const {
  ClusterUpdate view;
  view.whole = false;
  view.version = news.version;
  Jobs jobs;
  MutexLock lock(&mutex_);
  for (const std::string& uid : news.jobs) {
    const auto it = by_uid_.find(uid);
    if (it == by_uid_.end() || jobs::IsTerminal(it->second->record.state.phase)) {
      view.gone_jobs.push_back(uid);
    } else {
      jobs.emplace(it->second->record.sequence, it->second);
    }
  }
  for (const auto& [sequence, job] : jobs) AddTo(&view, job);
  for (const std::string& id : news.nodes) {
    const auto it = nodes_.find(id);
    if (it == nodes_.end() || !IsSeen(*it->second.entry)) {
      view.gone_nodes.push_back(id);
    } else {
      view.nodes.push_back(it->second.entry);
    }
  }
  if (news.quotas) {
    std::vector<v1::NamespaceQuota>& quotas = view.quotas.emplace();
    for (const auto& [name, quota] : quotas_) quotas.push_back(quota);
  }
  return view;
}

}  // namespace adaptdl::supervisor
