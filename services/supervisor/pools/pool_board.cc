#include "services/supervisor/pools/pool_board.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/jobspec/checks.h"
#include "libs/messages/text.h"
#include "services/supervisor/pools/report_checks.h"

namespace adaptdl::supervisor {

absl::Status PoolBoard::Check(const v1::ReportNodePoolsRequest& report, const std::string& caller,
                              absl::Time now) const {
  size_t pools = pools_.size();
  size_t nodes = report.nodes_size();
  for (const auto& [name, entry] : pools_) nodes += entry.nodes.size();
  const std::string currency = report.currency().empty() ? "USD" : report.currency();
  std::set<std::string> named;
  for (const v1::NodePool& pool : report.pools()) {
    named.insert(pool.name());
    const auto known = pools_.find(pool.name());
    if (known == pools_.end()) {
      ++pools;
      continue;
    }
    nodes -= known->second.nodes.size();
    if (known->second.caller != caller && now - known->second.report_time < kForgetAfter) {
      return absl::FailedPreconditionError(absl::StrCat(
          "pools.name: ", jobspec::Show(pool.name()), ": another autoscaler, ",
          jobspec::Show(known->second.caller), ", reports it; give each autoscaler its own pools"));
    }
  }
  for (const auto& [name, entry] : pools_) {
    if (named.contains(name) || now - entry.report_time >= kForgetAfter || currency == currency_) continue;
    return absl::FailedPreconditionError(absl::StrCat("currency: ", currency, ": prices of pool ", name,
                                                      " are in ", currency_, "; give all in one currency"));
  }
  if (pools <= kMaxPools && nodes <= kMaxNodes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("pools: with this report there would be ", pools,
                                                   " pools with ", nodes, " nodes; keep to ", kMaxPools,
                                                   " and ", kMaxNodes));
}

absl::Status PoolBoard::Take(const v1::ReportNodePoolsRequest& report, const std::string& caller,
                             absl::Time now, Changed* changed) {
  if (const absl::Status status = Check(report, caller, now); !status.ok()) return status;
  for (const v1::NodePool& pool : report.pools()) {
    Entry entry{caller, now, pool, {}};
    messages::BoundText(kMaxReportText, &entry.pool);
    pools_[pool.name()] = std::move(entry);
    changed->insert(pool.name());
  }
  for (const v1::VouchedNode& node : report.nodes()) pools_.at(node.pool()).nodes[node.node_id()] = node;
  Forget(caller, now, changed);
  AddEvents(report);
  Index();
  report_time_ = now;
  currency_ = report.currency().empty() ? "USD" : report.currency();
  return absl::OkStatus();
}

void PoolBoard::Forget(const std::string& caller, absl::Time now, Changed* changed) {
  for (auto it = pools_.begin(); it != pools_.end();) {
    if (it->second.caller == caller && now - it->second.report_time >= kForgetAfter) {
      changed->insert(it->first);
      it = pools_.erase(it);
    } else {
      ++it;
    }
  }
}

void PoolBoard::AddEvents(const v1::ReportNodePoolsRequest& report) {
  for (v1::PoolEvent event : report.events()) {
    messages::BoundText(kMaxReportText, &event);
    if (known_events_.insert(event.SerializeAsString()).second) events_.push_back(std::move(event));
  }
  // Several autoscalers tell of the same time.
  const auto earlier = [](const v1::PoolEvent& a, const v1::PoolEvent& b) {
    return std::pair(a.time().seconds(), a.time().nanos()) < std::pair(b.time().seconds(), b.time().nanos());
  };
  std::stable_sort(events_.begin(), events_.end(), earlier);
  while (events_.size() > kMaxEvents) {
    known_events_.erase(events_.front().SerializeAsString());
    events_.pop_front();
  }
}

void PoolBoard::Index() {
  by_id_.clear();
  by_instance_.clear();
  for (const auto& [name, entry] : pools_) {
    for (const auto& [id, node] : entry.nodes) {
      by_id_.insert({id, &node});
      if (!node.instance_id().empty()) by_instance_.insert({node.instance_id(), &node});
    }
  }
}

std::vector<const v1::NodePool*> PoolBoard::Pools() const {
  std::vector<const v1::NodePool*> pools;
  for (const auto& [name, entry] : pools_) pools.push_back(&entry.pool);
  return pools;
}

std::vector<const v1::VouchedNode*> PoolBoard::NodesOf(const std::string& pool) const {
  std::vector<const v1::VouchedNode*> nodes;
  const auto entry = pools_.find(pool);
  if (entry == pools_.end()) return nodes;
  for (const auto& [id, node] : entry->second.nodes) nodes.push_back(&node);
  return nodes;
}

const v1::VouchedNode* PoolBoard::FindNode(const std::string& node_id) const {
  const auto node = by_id_.find(node_id);
  return node == by_id_.end() ? nullptr : node->second;
}

const v1::VouchedNode* PoolBoard::FindInstance(const std::string& instance_id) const {
  const auto node = by_instance_.find(instance_id);
  return node == by_instance_.end() ? nullptr : node->second;
}

}  // namespace adaptdl::supervisor
