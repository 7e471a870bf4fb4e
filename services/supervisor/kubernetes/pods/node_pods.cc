#include "services/supervisor/kubernetes/pods/node_pods.h"

#include <algorithm>
#include <utility>

namespace adaptdl::supervisor {
namespace {

bool IsTold(const PodValue& pod) { return pod != nullptr && pod->IsReplica() && !pod->Node().empty(); }

}  // namespace

void NodePods::Erase(const PodValue& pod) {
  expected_.erase(pod->key.name);
  const auto node = nodes_.find(pod->Node());
  if (node != nodes_.end()) node->second.pods.erase(pod->key);
}

void NodePods::EraseIfIdle(const std::string& node_id) {
  const auto found = nodes_.find(node_id);
  if (found == nodes_.end()) return;
  const Node& node = found->second;
  if (!node.is_followed && node.pods.empty() && node.gone.empty()) nodes_.erase(found);
}

std::set<std::string> NodePods::Change(const PodValue& before, const PodValue& after, absl::Time now) {
  MutexLock lock(&mutex_);
  std::set<std::string> affected;
  absl::Time hindered = now;
  if (IsTold(before)) {
    Node& node = nodes_[before->Node()];
    const auto entry = node.pods.find(before->key);
    if (entry != node.pods.end() && after != nullptr && before->hindrance == after->hindrance) {
      hindered = entry->second.hindered;
    }
    Erase(before);
    if (after == nullptr) node.gone[before->key] = before;
    affected.insert(before->Node());
  }
  if (IsTold(after)) {
    expected_.erase(after->key.name);
    Entry entry = {.pod = after};
    if (after->hindrance != Hindrance::kNone) entry.hindered = std::min(hindered, now);
    nodes_[after->Node()].pods[after->key] = std::move(entry);
    affected.insert(after->Node());
  }
  return affected;
}

void NodePods::Expect(const PodValue& pod, absl::Time now) {
  if (!IsTold(pod)) return;
  MutexLock lock(&mutex_);
  Node& node = nodes_[pod->Node()];
  // It was heard of meanwhile.
  if (node.pods.count(pod->key) > 0 || node.gone.count(pod->key) > 0) return;
  node.pods[pod->key] = {.pod = pod, .expected = now, .has_changed = false};
  expected_[pod->key.name] = pod;
}

PodValue NodePods::FindExpected(const std::string& name) const {
  MutexLock lock(&mutex_);
  const auto found = expected_.find(name);
  return found == expected_.end() ? nullptr : found->second;
}

std::set<std::string> NodePods::Disappoint(const PodValue& pod, absl::Time now) {
  const PodValue expected = FindExpected(pod->key.name);
  if (expected == nullptr || expected->uid != pod->uid) return {};
  return Change(pod, nullptr, now);
}

void NodePods::Follow(const std::string& node_id, absl::Time now) {
  MutexLock lock(&mutex_);
  Node& node = nodes_[node_id];
  node.is_followed = true;
  node.reconcile = now;
}

void NodePods::Forget(const std::string& node_id) {
  MutexLock lock(&mutex_);
  const auto found = nodes_.find(node_id);
  if (found == nodes_.end()) return;
  found->second.is_followed = false;
  found->second.reconcile = absl::InfiniteFuture();
  EraseIfIdle(node_id);
}

std::set<std::string> NodePods::TellAll(absl::Time now) {
  MutexLock lock(&mutex_);
  std::set<std::string> all;
  for (auto& [id, node] : nodes_) {
    node.reconcile = now;
    all.insert(id);
  }
  return all;
}

absl::Time NodePods::Deadline(const Entry& entry) const {
  if (entry.is_given_up || entry.pod->hindrance == Hindrance::kNone) return absl::InfiniteFuture();
  const bool no_room = entry.pod->hindrance == Hindrance::kUnschedulable;
  return entry.hindered + (no_room ? options_.unschedulable_deadline : options_.start_deadline);
}

v1::ReplicaReport NodePods::ReportNow(Entry* entry, absl::Time now) const {
  entry->has_changed = false;
  if (Deadline(*entry) <= now) entry->is_given_up = true;
  return entry->is_given_up ? ReportOfHindered(*entry->pod) : ReportOf(*entry->pod);
}

NodeNews NodePods::Take(const std::string& node_id, absl::Time now) {
  MutexLock lock(&mutex_);
  NodeNews news;
  const auto found = nodes_.find(node_id);
  if (found == nodes_.end()) return news;
  Node& node = found->second;
  news.gone = std::exchange(node.gone, {});
  news.whole = node.reconcile <= now;
  if (news.whole)
    node.reconcile = node.is_followed ? now + options_.reconcile_period : absl::InfiniteFuture();
  for (auto& [key, entry] : node.pods) {
    if (news.whole && entry.expected + options_.reconcile_period <= now) news.missing.push_back(entry.pod);
    if (news.whole || entry.has_changed || Deadline(entry) <= now) news.reports[key] = ReportNow(&entry, now);
  }
  EraseIfIdle(node_id);
  return news;
}

void NodePods::GiveBack(const std::string& node_id, NodeNews news) {
  MutexLock lock(&mutex_);
  Node& node = nodes_[node_id];
  node.gone.merge(news.gone);
  if (news.whole) node.reconcile = absl::InfinitePast();
  for (const auto& [key, report] : news.reports) {
    const auto entry = node.pods.find(key);
    if (entry != node.pods.end()) entry->second.has_changed = true;
  }
  EraseIfIdle(node_id);
}

absl::Time NodePods::NextTime(const std::string& node_id) const {
  MutexLock lock(&mutex_);
  const auto found = nodes_.find(node_id);
  if (found == nodes_.end()) return absl::InfiniteFuture();
  absl::Time next = found->second.reconcile;
  for (const auto& [key, entry] : found->second.pods) next = std::min(next, Deadline(entry));
  return next;
}

}  // namespace adaptdl::supervisor
