// What nodes have cost, as the store keeps it. Plain values.
//
// Amounts are whole numbers, so that their sums are exact: node time in microseconds, money in billionths of the unit of
// currency.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STORE_COSTS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STORE_COSTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace adaptdl::supervisor {

inline constexpr int64_t kNanosOfUnit = 1'000'000'000;
inline constexpr int64_t kMicrosOfHour = int64_t{3600} * 1'000'000;

// What one job used of one pool in one hour, or what nobody used of it.
struct CostRow {
  // When the hour begins, in hours since the Unix epoch. 0: all hours that are not kept one by one any more.
  int64_t hour = 0;
  // Empty, with the job: what nobody used.
  std::string name_space;
  std::string job;
  std::string job_uid;
  std::string pool;
  int64_t node_micros = 0;
  int64_t cost_nanos = 0;
  // Whether the node had a price.
  bool priced = false;

  bool operator==(const CostRow&) const = default;
};

// A node that costs, and up to when that is in the rows.
struct BilledNode {
  std::string pool;
  std::string node_id;
  // Per hour. Absent: it has no price.
  std::optional<int64_t> price_nanos;
  // Wall time.
  absl::Time accounted_until;

  bool operator==(const BilledNode&) const = default;
};

// What changes about costs, in one batch with itself: rows and the nodes that they account for belong together.
struct CostChanges {
  // By hour, job and pool; replace what is there.
  std::vector<CostRow> put_rows;
  // All rows of these hours.
  std::vector<int64_t> delete_hours;
  // Rows of hour 0 of these jobs (uid).
  std::vector<std::string> delete_totals;
  // All nodes that cost from now on; absent: they are as they were.
  std::optional<std::vector<BilledNode>> nodes;
  // Of all amounts. Empty: as it was.
  std::string currency;

  bool empty() const {
    return put_rows.empty() && delete_hours.empty() && delete_totals.empty() && !nodes.has_value() &&
           currency.empty();
  }
};

// Everything that is read at start.
struct CostContents {
  std::vector<CostRow> rows;
  std::vector<BilledNode> nodes;
  // Empty: none was ever told.
  std::string currency;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STORE_COSTS_H_
