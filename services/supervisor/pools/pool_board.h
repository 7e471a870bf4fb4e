// What autoscalers reported last: pools, the nodes that they vouch for, and what was decided about them lately.
//
// Each report replaces what it names, pool by pool. A pool belongs to the caller that reports it. One that its caller
// names no more, though it goes on to report, is forgotten after `kForgetAfter`; so is the claim of a caller that
// reports no more, but not the pool: its nodes may be there, whatever became of the autoscaler.
//
// Pure: no clock, no I/O. Not thread-safe. Times are steady.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_POOLS_POOL_BOARD_H_
#define ADAPTDL_SERVICES_SUPERVISOR_POOLS_POOL_BOARD_H_

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "adaptdl/v1/node_pool_service.pb.h"

namespace adaptdl::supervisor {

class PoolBoard {
 public:
  // Bounds of all reports together.
  static constexpr size_t kMaxPools = 256;
  static constexpr size_t kMaxNodes = 20'000;
  static constexpr size_t kMaxEvents = 1000;
  static constexpr absl::Duration kForgetAfter = absl::Minutes(2);

  // Names of pools whose nodes are others than before, by what a report has changed.
  using Changed = std::set<std::string>;

  // A report that was checked. FAILED_PRECONDITION: a pool is another caller's, or all prices are in another currency;
  // RESOURCE_EXHAUSTED: there would be too many of them. Nothing has changed then.
  absl::Status Take(const v1::ReportNodePoolsRequest& report, const std::string& caller, absl::Time now,
                    Changed* changed);

  // In order of name, and of time.
  std::vector<const v1::NodePool*> Pools() const;
  const std::deque<v1::PoolEvent>& events() const { return events_; }
  // The nodes of a pool, by id; none: there is no such pool.
  std::vector<const v1::VouchedNode*> NodesOf(const std::string& pool) const;
  const v1::VouchedNode* FindNode(const std::string& node_id) const;
  const v1::VouchedNode* FindInstance(const std::string& instance_id) const;
  // InfinitePast: there was no report.
  absl::Time report_time() const { return report_time_; }
  const std::string& currency() const { return currency_; }

 private:
  struct Entry {
    std::string caller;
    absl::Time report_time;
    v1::NodePool pool;
    std::map<std::string, v1::VouchedNode> nodes;
  };

  absl::Status Check(const v1::ReportNodePoolsRequest& report, const std::string& caller,
                     absl::Time now) const;
  void Forget(const std::string& caller, absl::Time now, Changed* changed);
  void AddEvents(const v1::ReportNodePoolsRequest& report);
  void Index();

  std::map<std::string, Entry> pools_;
  // Into pools_.
  std::map<std::string, const v1::VouchedNode*> by_id_;
  std::map<std::string, const v1::VouchedNode*> by_instance_;
  std::deque<v1::PoolEvent> events_;
  // As bytes.
  std::set<std::string> known_events_;
  absl::Time report_time_ = absl::InfinitePast();
  std::string currency_ = "USD";
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_POOLS_POOL_BOARD_H_
