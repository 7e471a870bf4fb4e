// The loop that keeps a node pool: observe, decide (pool_controller.h), execute, note on the board, again.
//
// A supervisor or an allocator that is away changes nothing about the pool: it stays as it is, and the board
// says so. Nodes that die are started again under their id, with a growing delay when they die at once.
//
// Thread-safety: Start() and Stop() by the owner's thread; RoundForTest() while the loop does not run.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_AUTOSCALER_H_
#define ADAPTDL_SERVICES_AUTOSCALER_AUTOSCALER_H_

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
#include "prometheus/registry.h"
#include "services/autoscaler/autoscaler_service.h"
#include "services/autoscaler/cluster_client.h"
#include "services/autoscaler/metrics.h"
#include "services/autoscaler/observation.h"
#include "services/autoscaler/pool_controller.h"
#include "services/autoscaler/providers/node_pool_provider.h"
#include "services/autoscaler/restart_backoff.h"

namespace adaptdl::autoscaler {

struct AutoscalerOptions {
  PoolLimits limits;
  // Time between two rounds.
  absl::Duration poll_period = absl::Seconds(2);
  RestartBackoffOptions restart;
};

class Autoscaler {
 public:
  // Nothing is owned; all outlive the autoscaler.
  struct Dependencies {
    NodePoolProvider* provider;
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
  void Loop();
  void Round();
  // Asks everybody. Nothing: the provider has no answer, and the round is over.
  std::optional<Observation> Observe();
  void Execute(const PoolView& view, const PoolDecision& decision);
  // Whether any node is being made.
  bool Create(const PoolView& view, const PoolDecision& decision);
  absl::Status ExecuteOne(const PoolView& view, const PoolAction& action);
  void Keep(const PoolView& view, const PoolDecision& decision);
  void RestartDead(const Observation& observation, const PoolDecision& decision);
  void ForgetGone(Observation* observation);
  void Publish(const Observation& observation, const PoolView& view, const PoolDecision& decision);
  void NoteError(const std::string& source, const std::string& what, const absl::Status& status);
  // Only what is new: a supervisor that is away for an hour is worth one line.
  void LogErrors();

  const AutoscalerOptions options_;
  const Dependencies with_;
  Metrics metrics_;
  RestartBackoff backoff_;
  absl::Time last_change_;  // steady
  // What the supervisor said last; used while it is away.
  std::vector<v1::Node> registered_;
  // Of this round, and of the one before.
  std::string errors_;
  std::string last_errors_;

  Mutex mutex_;
  CondVar stop_changed_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_AUTOSCALER_H_
