#include "services/supervisor/costs/cost_accountant.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"

namespace adaptdl::supervisor {
namespace {

// Hour of what is not kept hour by hour.
constexpr int64_t kEarlier = 0;

std::optional<int64_t> PriceNanos(const std::optional<double>& price) {
  if (!price.has_value()) return std::nullopt;
  return std::llround(*price * static_cast<double>(kNanosOfUnit));
}

// The part of a whole number, at most what is left of it.
int64_t PartOf(double part, int64_t whole, int64_t left) {
  const double share = std::clamp(part, 0.0, 1.0) * static_cast<double>(whole);
  return std::clamp<int64_t>(static_cast<int64_t>(share), 0, left);
}

}  // namespace

int64_t HourOf(absl::Time wall) { return std::max<int64_t>(1, absl::ToInt64Hours(wall - absl::UnixEpoch())); }
absl::Time BeginOfHour(int64_t hour) { return absl::UnixEpoch() + hour * absl::Hours(1); }

void CostAccountant::Restore(const CostContents& contents, const Moment& now) {
  if (!contents.currency.empty()) currency_ = contents.currency;
  for (const CostRow& row : contents.rows) *RowOf(row) = row;
  for (const auto& [hour, rows] : hours_) {
    for (const auto& [key, row] : rows) {
      if (row.job_uid.empty()) continue;
      Total& total = totals_[row.job_uid];
      total.cost_nanos += row.cost_nanos;
      total.priced = total.priced || row.priced;
    }
  }
  changed_rows_.clear();
  for (const BilledNode& billed : contents.nodes) {
    Node node;
    node.price_nanos = billed.price_nanos;
    // The wall clock may have been set since: nothing was accounted in the future.
    node.accounted_until = std::min(now.ToSteady(billed.accounted_until), now.steady);
    node.accounted_until = std::max(node.accounted_until, now.steady - options_.retention);
    nodes_[{billed.pool, billed.node_id}] = std::move(node);
  }
}

void CostAccountant::SetCurrency(const std::string& currency) {
  currency_changed_ = currency_changed_ || currency != currency_;
  currency_ = currency;
}

void CostAccountant::SetPool(const std::string& pool, const std::vector<CostNode>& nodes, const Moment& now) {
  std::set<std::string> named;
  for (const CostNode& reported : nodes) {
    named.insert(reported.node_id);
    const auto [it, is_new] = nodes_.try_emplace({pool, reported.node_id});
    Node& node = it->second;
    node.confirmed_until = now.steady + options_.patience;
    if (is_new) {
      const absl::Time created = now.ToSteady(reported.create_time);
      node.accounted_until = reported.create_time == absl::InfinitePast()
                                 ? now.steady
                                 : std::clamp(created, now.steady - options_.retention, now.steady);
      node.price_nanos = PriceNanos(reported.price_per_hour);
      nodes_changed_ = true;
    } else if (node.price_nanos != PriceNanos(reported.price_per_hour)) {
      // What it has cost up to now it has cost at the price that it had.
      AdvanceNode(pool, &node, now);
      node.price_nanos = PriceNanos(reported.price_per_hour);
      nodes_changed_ = true;
    }
  }
  for (auto it = nodes_.lower_bound({pool, ""}); it != nodes_.end() && it->first.first == pool;) {
    if (named.contains(it->first.second)) {
      ++it;
      continue;
    }
    AdvanceNode(pool, &it->second, now);
    it = nodes_.erase(it);
    nodes_changed_ = true;
  }
}

std::set<std::string> CostAccountant::NodeIds() const {
  std::set<std::string> ids;
  for (const auto& [key, node] : nodes_) ids.insert(key.second);
  return ids;
}

void CostAccountant::Advance(const std::map<std::string, NodeView>& views, const Moment& now) {
  static const auto* const kUnseen = new NodeView();
  for (auto& [key, node] : nodes_) {
    const auto found = views.find(key.second);
    const NodeView& view = found == views.end() ? *kUnseen : found->second;
    if (view.alive) node.confirmed_until = std::max(node.confirmed_until, now.steady);
    // Of the time before this process, or before its pool named the node, nobody knows better than this.
    if (!std::exchange(node.knows_holders, true)) node.holders = view.holders;
    AdvanceNode(key.first, &node, now);
    node.holders = view.holders;
  }
}

void CostAccountant::AdvanceNode(const std::string& pool, Node* node, const Moment& now) {
  const absl::Time until = std::min(now.steady, node->confirmed_until);
  while (true) {
    const int64_t micros = absl::ToInt64Microseconds(until - node->accounted_until);
    if (micros <= 0) return;
    const absl::Time wall = now.ToWall(node->accounted_until);
    const int64_t hour = HourOf(wall);
    // Rounded up, so that the next stretch is in the next hour.
    const int64_t left = absl::ToInt64Microseconds(BeginOfHour(hour + 1) - wall) + 1;
    const int64_t stretch = std::min(micros, std::max<int64_t>(1, left));
    Account(pool, hour, stretch, node);
    node->accounted_until += absl::Microseconds(stretch);
  }
}

void CostAccountant::Account(const std::string& pool, int64_t hour, int64_t micros, Node* node) {
  CostSum left{micros, 0};
  if (node->price_nanos.has_value()) {
    const absl::int128 product = absl::int128(*node->price_nanos) * micros + node->remainder;
    left.cost_nanos = static_cast<int64_t>(product / kMicrosOfHour);
    node->remainder = static_cast<int64_t>(product % kMicrosOfHour);
  }
  const CostSum whole = left;
  const bool priced = node->price_nanos.has_value();
  for (const Holder& holder : node->holders) {
    const CostSum share{PartOf(holder.part, whole.node_micros, left.node_micros),
                        PartOf(holder.part, whole.cost_nanos, left.cost_nanos)};
    left.node_micros -= share.node_micros;
    left.cost_nanos -= share.cost_nanos;
    Add(holder, pool, hour, share, priced);
  }
  Add(Holder(), pool, hour, left, priced);
}

CostRow* CostAccountant::RowOf(const CostRow& like) {
  const RowKey key = {like.job_uid, like.pool};
  const auto [it, is_new] = hours_[like.hour].try_emplace(key);
  if (is_new) {
    ++rows_;
    it->second = like;
    if (!like.job_uid.empty()) ++totals_[like.job_uid].rows;
  }
  changed_rows_.insert({like.hour, key});
  return &it->second;
}

void CostAccountant::Add(const Holder& holder, const std::string& pool, int64_t hour, const CostSum& sum,
                         bool priced) {
  if (sum.node_micros == 0 && sum.cost_nanos == 0) return;
  CostRow* row = RowOf({hour, holder.name_space, holder.job, holder.job_uid, pool, 0, 0, false});
  row->node_micros += sum.node_micros;
  row->cost_nanos += sum.cost_nanos;
  row->priced = row->priced || priced;
  if (sum.cost_nanos != 0) increases_[{pool, holder.name_space}] += sum.cost_nanos;
  if (holder.job_uid.empty()) return;
  Total& total = totals_[holder.job_uid];
  total.cost_nanos += sum.cost_nanos;
  total.priced = total.priced || priced;
}

void CostAccountant::Forget(const CostRow& row) {
  --rows_;
  changed_rows_.erase({row.hour, {row.job_uid, row.pool}});
  const auto total = totals_.find(row.job_uid);
  if (total == totals_.end()) return;
  total->second.cost_nanos -= row.cost_nanos;
  if (--total->second.rows == 0) totals_.erase(total);
}

void CostAccountant::DropHour(int64_t hour, const std::function<bool(const std::string&)>& is_known) {
  const Hour rows = std::exchange(hours_[hour], {});
  for (const auto& [key, row] : rows) {
    if (!row.job_uid.empty() && is_known(row.job_uid)) {
      CostRow sum = row;
      sum.hour = kEarlier;
      sum.node_micros = 0;
      sum.cost_nanos = 0;
      CostRow* earlier = RowOf(sum);
      earlier->node_micros += row.node_micros;
      earlier->cost_nanos += row.cost_nanos;
      earlier->priced = earlier->priced || row.priced;
      totals_[row.job_uid].cost_nanos += row.cost_nanos;
      dropped_totals_.erase(row.job_uid);
    }
    Forget(row);
  }
  hours_.erase(hour);
  dropped_hours_.insert(hour);
}

void CostAccountant::DropTotals(const std::function<bool(const std::string&)>& is_known) {
  const auto earlier = hours_.find(kEarlier);
  if (earlier == hours_.end()) return;
  for (auto it = earlier->second.begin(); it != earlier->second.end();) {
    if (is_known(it->first.first)) {
      ++it;
      continue;
    }
    dropped_totals_.insert(it->first.first);
    Forget(it->second);
    it = earlier->second.erase(it);
  }
}

void CostAccountant::DropNodes(const Moment& now) {
  const size_t dropped = std::erase_if(nodes_, [&](const auto& entry) {
    const Node& node = entry.second;
    return std::max(node.accounted_until, node.confirmed_until) <= now.steady - options_.retention;
  });
  nodes_changed_ = nodes_changed_ || dropped > 0;
}

void CostAccountant::Expire(const std::function<bool(const std::string&)>& is_known, const Moment& now) {
  DropNodes(now);
  DropTotals(is_known);
  const int64_t current = HourOf(now.wall);
  const int64_t oldest = HourOf(now.wall - options_.retention);
  while (true) {
    const std::optional<int64_t> first = FirstHour();
    if (!first.has_value() || *first >= current || (*first >= oldest && rows_ <= options_.max_rows)) return;
    DropHour(*first, is_known);
  }
}

std::optional<double> CostAccountant::CostOf(const std::string& job_uid) const {
  const auto total = totals_.find(job_uid);
  if (total == totals_.end() || !total->second.priced) return std::nullopt;
  return static_cast<double>(total->second.cost_nanos) / static_cast<double>(kNanosOfUnit);
}

std::map<CostAccountant::LineKey, CostSum> CostAccountant::Lines(const std::string& name_space,
                                                                 int64_t begin_hour, int64_t end_hour) const {
  std::map<LineKey, CostSum> lines;
  const bool all = name_space == "*";
  for (auto it = hours_.lower_bound(std::max(begin_hour, kEarlier + 1)); it != hours_.end(); ++it) {
    if (it->first >= end_hour) break;
    for (const auto& [key, row] : it->second) {
      if (!all && (row.job_uid.empty() || row.name_space != name_space)) continue;
      CostSum& line = lines[{row.name_space, row.job, row.job_uid, row.pool}];
      line.node_micros += row.node_micros;
      line.cost_nanos += row.cost_nanos;
    }
  }
  return lines;
}

std::optional<int64_t> CostAccountant::FirstHour() const {
  const auto first = hours_.upper_bound(kEarlier);
  return first == hours_.end() ? std::nullopt : std::optional<int64_t>(first->first);
}

CostChanges CostAccountant::TakeChanges(const Moment& now) {
  CostChanges changes;
  for (const auto& [hour, key] : changed_rows_) changes.put_rows.push_back(hours_.at(hour).at(key));
  changes.delete_hours.assign(dropped_hours_.begin(), dropped_hours_.end());
  changes.delete_totals.assign(dropped_totals_.begin(), dropped_totals_.end());
  // Up to when nodes are accounted for belongs to the rows.
  if (nodes_changed_ || !changes.put_rows.empty()) {
    std::vector<BilledNode>& nodes = changes.nodes.emplace();
    for (const auto& [key, node] : nodes_)
      nodes.push_back({key.first, key.second, node.price_nanos, now.ToWall(node.accounted_until)});
  }
  if (std::exchange(currency_changed_, false)) changes.currency = currency_;
  changed_rows_.clear();
  dropped_hours_.clear();
  dropped_totals_.clear();
  nodes_changed_ = false;
  return changes;
}

void CostAccountant::PutBack(const CostChanges& changes) {
  for (const CostRow& row : changes.put_rows) {
    const auto hour = hours_.find(row.hour);
    const RowKey key = {row.job_uid, row.pool};
    if (hour != hours_.end() && hour->second.contains(key)) changed_rows_.insert({row.hour, key});
  }
  dropped_hours_.insert(changes.delete_hours.begin(), changes.delete_hours.end());
  dropped_totals_.insert(changes.delete_totals.begin(), changes.delete_totals.end());
  nodes_changed_ = nodes_changed_ || changes.nodes.has_value();
  currency_changed_ = currency_changed_ || !changes.currency.empty();
}

}  // namespace adaptdl::supervisor
