#include "services/supervisor/pools/node_pools.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "libs/jobspec/checks.h"
#include "libs/messages/proto_time.h"
#include "services/supervisor/pools/report_checks.h"

namespace adaptdl::supervisor {
namespace {

absl::Time CreateTimeOf(const v1::VouchedNode& node) {
  return node.has_create_time() ? messages::ToTime(node.create_time()) : absl::InfinitePast();
}

}  // namespace

void NodePools::Put(const Facts& facts, v1::Node* node) {
  if (facts.price.has_value()) {
    node->mutable_status()->set_price_per_hour(*facts.price);
  } else if (node->has_status()) {
    node->mutable_status()->clear_price_per_hour();
  }
  // What its worker says of itself stays.
  if (facts.preemptible) node->set_preemptible(true);
}

bool NodePools::Differs(const Facts& facts, const v1::Node& node) {
  const v1::NodeStatus& status = node.status();
  return status.has_price_per_hour() != facts.price.has_value() ||
         status.price_per_hour() != facts.price.value_or(0) || (facts.preemptible && !node.preemptible());
}

std::map<std::string, NodePools::Facts> NodePools::FactsOf(const PoolBoard::Changed& pools,
                                                           const std::set<std::string>& before) const {
  std::map<std::string, Facts> facts;
  for (const std::string& id : before) {
    if (board_.FindNode(id) == nullptr) facts[id] = {};
  }
  for (const std::string& pool : pools) {
    for (const v1::VouchedNode* node : board_.NodesOf(pool)) {
      Facts& of_node = facts[node->node_id()];
      of_node.preemptible = node->preemptible();
      if (node->has_price_per_hour()) of_node.price = node->price_per_hour();
    }
  }
  return facts;
}

void NodePools::TellCosts(const PoolBoard::Changed& pools) {
  costs_->SetCurrency(board_.currency());
  for (const std::string& pool : pools) {
    std::vector<CostNode> nodes;
    for (const v1::VouchedNode* node : board_.NodesOf(pool)) {
      CostNode& cost = nodes.emplace_back();
      cost.node_id = node->node_id();
      cost.create_time = CreateTimeOf(*node);
      if (node->has_price_per_hour()) cost.price_per_hour = node->price_per_hour();
    }
    costs_->SetPool(pool, nodes);
  }
}

absl::StatusOr<v1::ReportNodePoolsResponse> NodePools::Report(const v1::ReportNodePoolsRequest& request,
                                                              const std::string& caller) {
  if (const absl::Status status = CheckReport(request); !status.ok()) return status;
  std::map<std::string, Facts> facts;
  {
    MutexLock lock(&mutex_);
    std::set<std::string> before;
    for (const v1::NodePool* pool : board_.Pools()) {
      for (const v1::VouchedNode* node : board_.NodesOf(pool->name())) before.insert(node->node_id());
    }
    PoolBoard::Changed changed;
    const absl::Status taken = board_.Take(request, caller, core_->Now(), &changed);
    if (!taken.ok()) return taken;
    TellCosts(changed);
    facts = FactsOf(changed, before);
  }
  const absl::Status status = core_->Update([&](Transaction* transaction) {
    for (const auto& [id, of_node] : facts) {
      const NodeEntry* entry = transaction->FindNode(id);
      if (entry != nullptr && Differs(of_node, entry->record.node))
        Put(of_node, &transaction->EditNode(id)->record.node);
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return v1::ReportNodePoolsResponse();
}

absl::StatusOr<v1::GetNodePoolsResponse> NodePools::Get(const v1::GetNodePoolsRequest& request) const {
  const absl::Status status =
      jobspec::CheckRange("events", request.events(), 0, static_cast<int64_t>(PoolBoard::kMaxEvents));
  if (!status.ok()) return status;
  v1::GetNodePoolsResponse response;
  MutexLock lock(&mutex_);
  for (const v1::NodePool* pool : board_.Pools()) *response.add_pools() = *pool;
  const auto& events = board_.events();
  const size_t count = std::min(events.size(), static_cast<size_t>(request.events()));
  for (size_t i = events.size() - count; i < events.size(); ++i) *response.add_events() = events[i];
  if (board_.report_time() != absl::InfinitePast())
    *response.mutable_report_time() = messages::ToProto(core_->Now().ToWall(board_.report_time()));
  response.set_currency(board_.currency());
  return response;
}

std::optional<Vouched> NodePools::Find(const std::string& instance_id) const {
  MutexLock lock(&mutex_);
  const v1::VouchedNode* node = board_.FindInstance(instance_id);
  if (node == nullptr) return std::nullopt;
  return Vouched{node->node_id(), node->pool(), node->instance_id(), node->address(), CreateTimeOf(*node)};
}

void NodePools::Describe(v1::Node* node) const {
  Facts facts;
  {
    MutexLock lock(&mutex_);
    const v1::VouchedNode* vouched = board_.FindNode(node->node_id());
    if (vouched == nullptr) return;
    facts.preemptible = vouched->preemptible();
    if (vouched->has_price_per_hour()) facts.price = vouched->price_per_hour();
  }
  Put(facts, node);
}

}  // namespace adaptdl::supervisor
