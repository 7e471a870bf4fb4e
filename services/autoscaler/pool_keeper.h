// Carries out what was decided about one pool, and remembers of it what no other knows: when its size changed last, since
// when nodes drain, how long they take to come, how often they died.
//
// Nodes that die are started again under their id, with a growing delay when they die at once; one that was being drained
// anyway is given up.
//
// Not thread-safe.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_POOL_KEEPER_H_
#define ADAPTDL_SERVICES_AUTOSCALER_POOL_KEEPER_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/nodepools/decision.h"
#include "libs/nodepools/refusals.h"
#include "services/autoscaler/cluster_client.h"
#include "services/autoscaler/metrics.h"
#include "services/autoscaler/observation.h"
#include "services/autoscaler/pool_events.h"
#include "services/autoscaler/pool_set.h"
#include "services/autoscaler/restart_backoff.h"

namespace adaptdl::autoscaler {

struct KeeperOptions {
  RestartBackoffOptions restart;
  nodepools::RefusalOptions refusals;
};

class PoolKeeper {
 public:
  // Nothing is owned; all outlive the keeper.
  struct Dependencies {
    const ClusterClient* cluster = nullptr;
    const Clock* clock = nullptr;
    Metrics* metrics = nullptr;
    PoolEvents* events = nullptr;
  };

  PoolKeeper(const KeeperOptions& options, const Dependencies& dependencies);

  // A new round: errors of the one before are forgotten.
  void Begin() { errors_.clear(); }
  // The provider has an answer, or none. Of a pool without one nothing is done.
  ObservedPool Look(const ManagedPool& pool);
  // The supervisor forgets nodes that are gone; first of all, so that their ids are free.
  void ForgetGone(const ManagedPool& pool, const ObservedPool& observed, std::vector<v1::Node>* registered);
  // The pool as the deciding code sees it; its kind is yet to be set.
  nodepools::Pool View(const ManagedPool& pool, const ObservedPool& observed,
                       const std::vector<v1::Node>& registered, const std::set<std::string>& idle);
  // REQUIRES: the provider had an answer.
  void Execute(const ManagedPool& pool, const PoolSet& set, const ObservedPool& observed,
               const nodepools::Pool& view, const nodepools::PoolDecision& decision,
               const std::set<std::string>& taken_ids);

  // `source`: provider, supervisor or allocator.
  void NoteError(const std::string& pool, const std::string& source, const std::string& what,
                 const absl::Status& status);
  // Of this round, for people. Empty: none.
  const std::string& errors() const { return errors_; }
  // Why the pool gives no nodes for now. Absent: it does.
  std::optional<nodepools::Refusals::Refusal> refusal(const std::string& pool) const {
    return refusals_.Of(pool);
  }
  // Whether that is for want of capacity.
  bool lacks_capacity() const { return lacks_capacity_; }
  // When the node was first seen; absent: it never was.
  std::optional<absl::Time> FirstSeen(const std::string& node_id) const;

 private:
  void Create(const ManagedPool& pool, const nodepools::PoolDecision& decision,
              const std::set<std::string>& taken_ids, bool* changed);
  absl::Status Act(const ManagedPool& pool, const nodepools::Pool& view, const nodepools::PoolAction& action);
  void EndLongDrains(const ManagedPool& pool, const PoolSet& set, const nodepools::Pool& view);
  void Keep(const ManagedPool& pool, const nodepools::Pool& view, const nodepools::PoolDecision& decision);
  void RestartDead(const ManagedPool& pool, const ObservedPool& observed, const nodepools::Pool& view,
                   const nodepools::PoolDecision& decision);
  void Refuse(const ManagedPool& pool, const absl::Status& status);
  // Learns how long nodes take to come.
  void Measure(const ObservedPool& observed, const std::vector<nodepools::PoolNode>& nodes);

  const KeeperOptions options_;
  const Dependencies with_;
  RestartBackoff backoff_;
  nodepools::Refusals refusals_;
  bool lacks_capacity_ = false;
  absl::Time last_change_;  // steady
  // What the provider said when it last had an answer.
  std::vector<ProvidedNode> last_provided_;
  // When nodes were seen first, by wall time; and since when they drain, by steady time.
  std::map<std::string, absl::Time> seen_;
  std::map<std::string, absl::Time> draining_since_;
  // Nodes that have not come yet, and when they were asked for (steady).
  std::map<std::string, absl::Time> awaited_;
  std::optional<absl::Duration> start_time_;
  std::string errors_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_POOL_KEEPER_H_
