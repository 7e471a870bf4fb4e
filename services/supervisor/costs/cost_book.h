// What nodes have cost, and who used them: keeps an accountant (cost_accountant.h) up to date with the cluster, stores
// what it says, and answers about it.
//
// It looks at the cluster once a second, so that what lasted for less may be charged to others, and stores twice a
// minute: a supervisor that ends leaves at most that much to the next one, which makes up for it.
//
// Thread-safe, but for Step(), which one thread calls.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_COSTS_COST_BOOK_H_
#define ADAPTDL_SERVICES_SUPERVISOR_COSTS_COST_BOOK_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "adaptdl/v1/node_pool_service.pb.h"
#include "libs/base/mutex.h"
#include "services/supervisor/costs/cost_accountant.h"
#include "services/supervisor/state/core.h"

namespace adaptdl::supervisor {

class CostBook {
 public:
  // `core` outlives it.
  CostBook(Core* core, const CostOptions& options) : core_(core), accountant_(options) {}

  // What was accounted before this process. Before anything else.
  void Fill(const CostContents& contents);

  // See CostAccountant.
  void SetPool(const std::string& pool, const std::vector<CostNode>& nodes);
  void SetCurrency(const std::string& currency);

  std::optional<double> CostOf(const std::string& job_uid) const;
  // RESOURCE_EXHAUSTED: it would be too many lines for one answer.
  absl::StatusOr<v1::GetCostsResponse> GetCosts(const v1::GetCostsRequest& request) const;

  // Does what is due.
  void Step();

 private:
  // The nodes of these ids, and who is on them.
  std::map<std::string, NodeView> LookAt(const std::set<std::string>& ids) const;
  void CountIncreases();
  void Expire(const Moment& now);
  void Store(const Moment& now);

  Core* const core_;
  mutable Mutex mutex_;
  CostAccountant accountant_ ABSL_GUARDED_BY(mutex_);
  // Used in Step() only.
  absl::Time next_look_ = absl::InfinitePast();
  absl::Time next_store_ = absl::InfinitePast();
  absl::Time next_expiry_ = absl::InfinitePast();
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_COSTS_COST_BOOK_H_
