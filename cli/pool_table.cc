#include "cli/pool_table.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/format.h"

namespace adaptdl::cli {
namespace {

constexpr char kInsufficientCapacity[] = "InsufficientCapacity";

std::string DashIfEmpty(const std::string& text) { return text.empty() ? "-" : Printable(text); }

// "InsufficientCapacity: no g5.2xlarge left (since Nov-21 01:00:00, next attempt Nov-21 01:05:00)".
std::string ConditionText(const v1::PoolCondition& condition) {
  std::vector<std::string> times;
  if (condition.has_start_time())
    times.push_back(absl::StrCat("since ", FormatSecond(ToTime(condition.start_time()))));
  if (condition.has_next_attempt_time())
    times.push_back(absl::StrCat("next attempt ", FormatSecond(ToTime(condition.next_attempt_time()))));
  std::string text = Printable(condition.type());
  if (!condition.message().empty()) absl::StrAppend(&text, ": ", Printable(condition.message()));
  if (!times.empty()) absl::StrAppend(&text, " (", absl::StrJoin(times, ", "), " UTC)");
  return text;
}

Cell ConditionsOf(const v1::NodePool& pool) {
  std::vector<std::string> types;
  for (const v1::PoolCondition& condition : pool.conditions()) types.push_back(Printable(condition.type()));
  if (types.empty() && !pool.last_error().empty()) types.push_back("Error");
  return types.empty() ? Cell("ok", Colour::kGreen) : Cell(absl::StrJoin(types, ","), Colour::kYellow);
}

// Whether one replica of the job fits on an empty node of the pool, as far as the pool tells.
bool MayHold(const v1::NodePool& pool, const v1::ReplicaTemplate& replica) {
  const auto& types = replica.placement().gpu_types();
  const bool right_type =
      types.empty() || std::any_of(types.begin(), types.end(), [&](const std::string& type) {
        return absl::EqualsIgnoreCase(type, pool.gpu_type());
      });
  if (!pool.has_capacity()) return right_type;
  const v1::Resources& need = replica.resources();
  const v1::Resources& offer = pool.capacity();
  // Memory of 0 is the machine's, which nobody has said yet.
  const bool memory = offer.memory_bytes() == 0 || need.memory_bytes() <= offer.memory_bytes();
  return right_type && memory && need.cpu_millis() <= offer.cpu_millis() && need.gpus() <= offer.gpus();
}

}  // namespace

std::string MoneyText(double amount, const std::string& currency) {
  const std::string figure = std::abs(amount) >= 1 || amount == 0 ? absl::StrFormat("%.2f", amount)
                                                                  : absl::StrFormat("%.4f", amount);
  return currency.empty() ? figure : absl::StrCat(figure, " ", Printable(currency));
}

Table PoolTable(const v1::GetNodePoolsResponse& pools) {
  Table table;
  table.headers = {"POOL",  "PROVIDER", "TYPE",   "SPOT",  "PRICE/H",
                   "NODES", "TARGET",   "BOUNDS", "STATE", "REASON"};
  for (const v1::NodePool& pool : pools.pools()) {
    table.rows.push_back(
        {Printable(pool.name()), DashIfEmpty(pool.provider()), DashIfEmpty(pool.instance_type()),
         pool.preemptible() ? "yes" : "no",
         pool.has_price_per_hour() ? MoneyText(pool.price_per_hour(), pools.currency()) : "-",
         absl::StrCat(pool.current_nodes()), absl::StrCat(pool.target_nodes()),
         absl::StrCat(pool.min_nodes(), "..", pool.max_nodes()), ConditionsOf(pool),
         DashIfEmpty(pool.reason())});
  }
  return table;
}

std::string PoolProblems(const v1::GetNodePoolsResponse& pools) {
  std::string lines;
  for (const v1::NodePool& pool : pools.pools()) {
    for (const v1::PoolCondition& condition : pool.conditions())
      absl::StrAppend(&lines, Printable(pool.name()), ": ", ConditionText(condition), "\n");
    if (pool.conditions().empty() && !pool.last_error().empty())
      absl::StrAppend(&lines, Printable(pool.name()), ": ", Printable(pool.last_error()), "\n");
  }
  return lines.empty() ? "" : absl::StrCat("\n", lines);
}

Table PoolEventTable(const v1::GetNodePoolsResponse& pools) {
  Table table;
  table.headers = {"TIME(UTC)", "POOL", "REASON", "NODES", "MESSAGE"};
  for (const v1::PoolEvent& event : pools.events()) {
    table.rows.push_back({FormatSecond(ToTime(event.time())), Printable(event.pool()),
                          Printable(event.reason()), DashIfEmpty(absl::StrJoin(event.node_ids(), ",")),
                          DashIfEmpty(event.message())});
  }
  return table;
}

bool WaitsForNodes(const v1::Job& job) {
  const v1::JobStatus& status = job.status();
  return status.phase() == v1::JOB_PHASE_PENDING && status.desired_allocation().empty() &&
         !job.spec().suspend();
}

std::vector<ShortPool> ShortPoolsOf(const v1::Job& job, const v1::GetNodePoolsResponse& pools) {
  std::vector<ShortPool> result;
  if (!WaitsForNodes(job)) return result;
  for (const v1::NodePool& pool : pools.pools()) {
    if (!MayHold(pool, job.spec().template_())) continue;
    for (const v1::PoolCondition& condition : pool.conditions()) {
      if (condition.type() == kInsufficientCapacity) result.push_back({pool.name(), condition});
    }
  }
  return result;
}

std::string Describe(const ShortPool& pool) {
  std::string text = absl::StrCat(
      "pool ", Printable(pool.pool), " gets no nodes: ",
      pool.condition.message().empty() ? "there is no capacity" : Printable(pool.condition.message()));
  if (pool.condition.has_next_attempt_time())
    absl::StrAppend(&text, "; next attempt ", FormatSecond(ToTime(pool.condition.next_attempt_time())),
                    " UTC");
  return text;
}

}  // namespace adaptdl::cli
