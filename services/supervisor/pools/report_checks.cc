#include "services/supervisor/pools/report_checks.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/jobspec/checks.h"

namespace adaptdl::supervisor {
namespace {

using jobspec::CheckDnsLabel;
using jobspec::CheckRange;
using jobspec::HasControl;
using jobspec::Show;
using jobspec::Wrong;

constexpr int kMaxNodesOfPool = 1 << 20;
constexpr int kMaxConditions = 16;
constexpr int kMaxNodesOfEvent = 1000;
constexpr size_t kLongestId = 253;
constexpr double kHighestPrice = 1e6;

absl::Status CheckReportedPrice(absl::string_view field, double price) {
  if (std::isfinite(price) && price >= 0 && price <= kHighestPrice) return absl::OkStatus();
  return Wrong(field, absl::StrCat(price), absl::StrCat("give a finite number from 0 to ", kHighestPrice));
}

// Of nodes and machines; empty where that is allowed.
absl::Status CheckReportedId(absl::string_view field, absl::string_view id, bool may_be_empty) {
  const bool good = id.size() <= kLongestId && !HasControl(id) && (may_be_empty || !id.empty());
  return good ? absl::OkStatus() : Wrong(field, Show(id), "give at most 253 printable characters");
}

absl::Status CheckReportedPool(const v1::NodePool& pool, int* nodes) {
  absl::Status status = CheckDnsLabel("pools.name", pool.name());
  status.Update(CheckReportedId("pools.provider", pool.provider(), true));
  status.Update(CheckReportedId("pools.instance_type", pool.instance_type(), true));
  status.Update(CheckReportedId("pools.gpu_type", pool.gpu_type(), true));
  status.Update(CheckRange("pools.min_nodes", pool.min_nodes(), 0, kMaxNodesOfPool));
  status.Update(CheckRange("pools.max_nodes", pool.max_nodes(), 0, kMaxNodesOfPool));
  status.Update(CheckRange("pools.current_nodes", pool.current_nodes(), 0, kMaxNodesOfPool));
  status.Update(CheckRange("pools.target_nodes", pool.target_nodes(), 0, kMaxNodesOfPool));
  if (pool.has_price_per_hour())
    status.Update(CheckReportedPrice("pools.price_per_hour", pool.price_per_hour()));
  status.Update(jobspec::CheckResources("pools.capacity", pool.capacity()));
  status.Update(CheckRange("pools.conditions", pool.conditions_size(), 0, kMaxConditions));
  for (const v1::PoolNode& node : pool.nodes()) {
    status.Update(CheckReportedId("pools.nodes.node_id", node.node_id(), false));
    status.Update(CheckReportedId("pools.nodes.instance_id", node.instance_id(), true));
  }
  *nodes += pool.nodes_size();
  return status;
}

absl::Status CheckReportedAddress(const std::string& address) {
  in6_addr ignored{};
  if (address.empty() || inet_pton(AF_INET, address.c_str(), &ignored) == 1 ||
      inet_pton(AF_INET6, address.c_str(), &ignored) == 1)
    return absl::OkStatus();
  return Wrong("nodes.address", Show(address), "give an IP address without a port, or none");
}

absl::Status CheckReportedNode(const v1::VouchedNode& node) {
  absl::Status status = CheckReportedId("nodes.node_id", node.node_id(), false);
  status.Update(CheckReportedId("nodes.instance_id", node.instance_id(), true));
  status.Update(CheckReportedAddress(node.address()));
  if (node.has_price_per_hour())
    status.Update(CheckReportedPrice("nodes.price_per_hour", node.price_per_hour()));
  return status;
}

absl::Status CheckReportedEvent(const v1::PoolEvent& event) {
  absl::Status status = CheckDnsLabel("events.pool", event.pool());
  status.Update(CheckReportedId("events.reason", event.reason(), false));
  status.Update(CheckRange("events.node_ids", event.node_ids_size(), 0, kMaxNodesOfEvent));
  for (const std::string& id : event.node_ids()) status.Update(CheckReportedId("events.node_ids", id, false));
  return status;
}

absl::Status CheckReportedCurrency(const std::string& currency) {
  const bool letters = std::all_of(currency.begin(), currency.end(), absl::ascii_isupper);
  if (currency.empty() || (currency.size() == 3 && letters)) return absl::OkStatus();
  return Wrong("currency", Show(currency), "give three letters of ISO 4217, such as EUR");
}

}  // namespace

absl::Status CheckReport(const v1::ReportNodePoolsRequest& report) {
  absl::Status status = CheckRange("pools", report.pools_size(), 0, kMaxReportedPools);
  status.Update(CheckRange("nodes", report.nodes_size(), 0, kMaxReportedNodes));
  status.Update(CheckRange("events", report.events_size(), 0, kMaxReportedEvents));
  status.Update(CheckReportedCurrency(report.currency()));
  std::set<absl::string_view> pools;
  int nodes = 0;
  for (const v1::NodePool& pool : report.pools()) {
    status.Update(CheckReportedPool(pool, &nodes));
    if (!pools.insert(pool.name()).second)
      status.Update(Wrong("pools.name", Show(pool.name()), "is there twice; give each once"));
  }
  status.Update(CheckRange("pools.nodes", nodes, 0, kMaxReportedNodes));
  std::set<absl::string_view> ids;
  for (const v1::VouchedNode& node : report.nodes()) {
    status.Update(CheckReportedNode(node));
    if (!pools.contains(node.pool()))
      status.Update(
          Wrong("nodes.pool", Show(node.pool()), "is none of the report's pools; name one of them"));
    if (!ids.insert(node.node_id()).second)
      status.Update(Wrong("nodes.node_id", Show(node.node_id()), "is there twice; give each once"));
  }
  for (const v1::PoolEvent& event : report.events()) status.Update(CheckReportedEvent(event));
  return status;
}

}  // namespace adaptdl::supervisor
