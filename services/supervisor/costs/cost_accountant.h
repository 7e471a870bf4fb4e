// Who pays for which node: the time of every node that costs is shared out among those who held it, hour by hour.
//
//   SetPool ──▶ the node costs, from its create_time on ──▶ Advance: its time since the last one goes to its holders
//                 ▲        │ not confirmed: its time waits             │ to each the part that it held,
//                 └────────┘ confirmed again: it is made up for        ▼ the rest to nobody
//               SetPool without it: it costs no more              rows of one hour
//
// A node is confirmed by each SetPool that names it, for `patience`, and by being seen alive. So neither a report that
// is missing for a while nor a supervisor that was away loses anything of what a node costs.
//
// All amounts are whole numbers (store/costs.h), and what is left over when they are divided stays with the node or with
// nobody: the rows are exactly what the nodes have cost, whatever happened. Lengths are those of the steady clock; the
// wall clock says which hour it is.
//
// Pure: no clock, no I/O. Not thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_COSTS_COST_ACCOUNTANT_H_
#define ADAPTDL_SERVICES_SUPERVISOR_COSTS_COST_ACCOUNTANT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "services/supervisor/store/costs.h"

namespace adaptdl::supervisor {

struct CostOptions {
  // How long hours are kept one by one. At most so many rows are: the oldest hours go first.
  absl::Duration retention = absl::Hours(24 * 31);
  size_t max_rows = 200'000;
  // How long a node costs on after its pool was reported last, though nobody sees it.
  absl::Duration patience = absl::Minutes(10);
};

// A node of a pool.
struct CostNode {
  std::string node_id;
  // Per hour. Absent: it has no price.
  std::optional<double> price_per_hour;
  // Wall time from which it costs. InfinitePast: from now on.
  absl::Time create_time = absl::InfinitePast();
};

// A job that holds a part of a node.
struct Holder {
  std::string name_space;
  std::string job;
  std::string job_uid;
  // From 0 to 1. Those of one node are 1 together at most; what is more counts for nothing.
  double part = 0;
};

// What is known of a node beside what its pool says.
struct NodeView {
  // Whether it is there, as the supervisor sees it.
  bool alive = false;
  std::vector<Holder> holders;
};

// What was used of one pool by one job, or by nobody.
struct CostSum {
  int64_t node_micros = 0;
  int64_t cost_nanos = 0;
};

class CostAccountant {
 public:
  explicit CostAccountant(const CostOptions& options) : options_(options) {}

  // What another process has accounted. Before anything else.
  void Restore(const CostContents& contents, const Moment& now);

  // All nodes that the pool has. Others that it had cost no more.
  void SetPool(const std::string& pool, const std::vector<CostNode>& nodes, const Moment& now);
  // Of all amounts; those that are there are taken for it.
  void SetCurrency(const std::string& currency);
  const std::string& currency() const { return currency_; }

  // Ids of all nodes that cost.
  std::set<std::string> NodeIds() const;
  // Accounts the time up to now to those who held the nodes; from now on those of `views` do, by node id.
  void Advance(const std::map<std::string, NodeView>& views, const Moment& now);

  // What hours that are too old leave behind: the sums of jobs that are known. Sums of others are forgotten, and so are
  // nodes that nobody has confirmed for so long.
  void Expire(const std::function<bool(const std::string& job_uid)>& is_known, const Moment& now);

  // What the job has cost. Absent: no node that it held had a price.
  std::optional<double> CostOf(const std::string& job_uid) const;
  // Namespace, job, uid and pool.
  using LineKey = std::tuple<std::string, std::string, std::string, std::string>;
  // Sums of the hours from `begin` on and before `end`, of one namespace; "*": all, and what nobody used.
  std::map<LineKey, CostSum> Lines(const std::string& name_space, int64_t begin_hour, int64_t end_hour) const;
  // The first hour that is kept. Absent: none is.
  std::optional<int64_t> FirstHour() const;

  // What has changed since it was taken last, to be stored.
  CostChanges TakeChanges(const Moment& now);
  // It could not be stored: it is among the next changes.
  void PutBack(const CostChanges& changes);
  // Cost since it was taken last, in billionths, by pool and namespace.
  std::map<std::pair<std::string, std::string>, int64_t> TakeIncreases() {
    return std::exchange(increases_, {});
  }

 private:
  // Job (uid) and pool.
  using RowKey = std::pair<std::string, std::string>;
  using Hour = std::map<RowKey, CostRow>;
  using NodeKey = std::pair<std::string, std::string>;  // pool, id
  struct Node {
    std::optional<int64_t> price_nanos;
    // Steady times.
    absl::Time accounted_until;
    absl::Time confirmed_until = absl::InfinitePast();
    // Of prices times time that were no whole billionth: less than an hour's microseconds.
    int64_t remainder = 0;
    // Whether it is known who held it since accounted_until.
    bool knows_holders = false;
    std::vector<Holder> holders = {};
  };
  struct Total {
    int64_t cost_nanos = 0;
    int64_t rows = 0;
    bool priced = false;
  };

  void AdvanceNode(const std::string& pool, Node* node, const Moment& now);
  // A stretch within one hour.
  void Account(const std::string& pool, int64_t hour, int64_t micros, Node* node);
  void Add(const Holder& holder, const std::string& pool, int64_t hour, const CostSum& sum, bool priced);
  CostRow* RowOf(const CostRow& like);
  void DropHour(int64_t hour, const std::function<bool(const std::string&)>& is_known);
  void DropNodes(const Moment& now);
  void DropTotals(const std::function<bool(const std::string&)>& is_known);
  void Forget(const CostRow& row);

  const CostOptions options_;
  std::string currency_ = "USD";
  std::map<NodeKey, Node> nodes_;
  // Hour 0: what jobs used before the first one.
  std::map<int64_t, Hour> hours_;
  size_t rows_ = 0;
  std::unordered_map<std::string, Total> totals_;  // by job (uid)
  std::map<std::pair<std::string, std::string>, int64_t> increases_;
  // To be stored.
  std::set<std::pair<int64_t, RowKey>> changed_rows_;
  std::set<int64_t> dropped_hours_;
  std::set<std::string> dropped_totals_;
  bool nodes_changed_ = false;
  bool currency_changed_ = false;
};

// In hours since the Unix epoch; at least 1.
int64_t HourOf(absl::Time wall);
absl::Time BeginOfHour(int64_t hour);

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_COSTS_COST_ACCOUNTANT_H_
