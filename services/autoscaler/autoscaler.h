// The loop that keeps all node pools: observe, decide (libs/nodepools), execute (pool_keeper.h), tell the supervisor and
// note on the board, again.
//
// A supervisor or an allocator that is away changes nothing about the pools: they stay as they are, and the board says so.
// A provider that has no answer holds up its own pool only.
//
// Thread-safety: Start() and Stop() by the owner's thread; RoundForTest() while the loop does not run.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_AUTOSCALER_H_
#define ADAPTDL_SERVICES_AUTOSCALER_AUTOSCALER_H_

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/nodepools/decision.h"
#include "prometheus/registry.h"
#include "services/autoscaler/autoscaler_service.h"
#include "services/autoscaler/cluster_client.h"
#include "services/autoscaler/metrics.h"
#include "services/autoscaler/observation.h"
#include "services/autoscaler/pool_events.h"
#include "services/autoscaler/pool_keeper.h"
#include "services/autoscaler/pool_set.h"

namespace adaptdl::autoscaler {

struct AutoscalerOptions {
  // Time between two rounds.
  absl::Duration poll_period = absl::Seconds(2);
  KeeperOptions keeper;
};

class Autoscaler {
 public:
  // Nothing is owned; all outlive the autoscaler.
  struct Dependencies {
    PoolSource* pools;
    const ClusterClient* cluster;
    PoolBoard* board;
    Clock* clock;
    std::shared_ptr<prometheus::Registry> metrics;
  };

  Autoscaler(const AutoscalerOptions& options, const Dependencies& dependencies);
  ~Autoscaler();
  Autoscaler(const Autoscaler&) = delete;
  Autoscaler& operator=(const Autoscaler&) = delete;

  // Runs rounds in a thread of its own, the first at once, until Stop(). The nodes stay.
  void Start();
  void Stop();

  void RoundForTest() { Round(); }

 private:
  // What one round knows.
  struct Seen {
    Observation observation;
    // By pool: what its nodes are like; nothing, where nobody knows.
    std::vector<v1::Node> like;
    nodepools::ClusterState state;
    // Of the whole cluster, for people; part of each pool's last_error.
    std::string errors;
  };

  void Loop();
  void Round();
  PoolKeeper& KeeperOf(const std::string& pool);
  // What the supervisor knows, or knew when it was last there. Whether it is.
  bool ListNodes(const PoolSet& set, Seen* seen);
  void AskForDemands(const PoolSet& set, Seen* seen);
  void NoteError(const PoolSet& set, const std::string& source, const std::string& what,
                 const absl::Status& status, Seen* seen);
  void Publish(const PoolSet& set, const Seen& seen, const nodepools::PoolsDecision& decision);
  void Report(const PoolSet& set, const Seen& seen, const std::vector<v1::NodePool>& pools);
  // Only what is new: a supervisor that is away for an hour is worth one line.
  void LogErrors(const std::string& errors);

  const AutoscalerOptions options_;
  const Dependencies with_;
  Metrics metrics_;
  PoolEvents events_;
  std::map<std::string, std::unique_ptr<PoolKeeper>> keepers_;
  // What the supervisor said last; used while it is away.
  std::vector<v1::Node> registered_;
  std::string last_errors_;
  // Since when what was said of the pools is not in force. Absent: it is.
  std::optional<absl::Time> refused_since_;

  Mutex mutex_;
  CondVar stop_changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_AUTOSCALER_H_
