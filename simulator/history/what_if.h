// What a cluster's recorded jobs would have seen on other nodes or under another policy.
//
//   absl::StatusOr<WhatIfReport> report = WhatIf(history, {.added = {"4xA100x8"}});
//
// The jobs are replayed twice, decided about by events as in the live allocator: on the cluster as it is and
// on the changed one. What really happened stands beside them, to show how far the model can be trusted.
//
// Deterministic; thread-safe.

#ifndef ADAPTDL_SIMULATOR_HISTORY_WHAT_IF_H_
#define ADAPTDL_SIMULATOR_HISTORY_WHAT_IF_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/history/fitted_workload.h"
#include "simulator/history/history.h"

namespace adaptdl::simulator {

struct WhatIfOptions {
  // Names of the policies (schedulers/factory.h). Empty, for the second one: the same.
  std::string policy = "goodput";
  std::string policy_after = {};
  // "<nodes>x<GPU type>x<GPUs per node>"; of type "cpu": cores per node. A type may be part of the name of
  // one that the cluster has ("A100"). What else a new node offers is that of a present node of its kind, or
  // else enough for any job.
  std::vector<std::string> added = {};
  // The same, or the id of a node.
  std::vector<std::string> removed = {};
  // Price of a node-hour, and speed of one GPU in any unit (see FitWorkload()), by type.
  std::map<std::string, double> prices = {};
  std::map<std::string, double> speeds = {};
  // Longest time between decisions, in seconds.
  double interval_seconds = 60;
  uint64_t seed = 1;
};

// Times are in seconds.
struct Figures {
  int jobs = 0;
  // From submission to the first start.
  double avg_wait_s = 0;
  // From submission to completion.
  double avg_jct_s = 0;
  double p99_jct_s = 0;
  // From the first submission to the last completion.
  double makespan_s = 0;
  double restarts_per_job = 0;
  // GPUs (cores, where the cluster has none) that jobs held, and those that the cluster had over the
  // makespan, in hours.
  double used_hours = 0;
  double offered_hours = 0;
  // Of all nodes over the makespan. Nothing without prices.
  std::optional<double> cost = {};
};

struct WhatIfReport {
  // Whether hours are of GPUs or of cores.
  bool gpus = true;
  // What really happened to the jobs that have ended; nothing if none has.
  std::optional<Figures> recorded;
  // By the model.
  Figures before;
  Figures after;
  // The model on the jobs that have ended: their mean completion time, and the median of how far each is off.
  double modelled_jct_s = 0;
  double median_error = 0;
  std::vector<LeftOut> left_out;
  std::vector<std::string> notes;
};

// INVALID_ARGUMENT: an option makes no sense, named. FAILED_PRECONDITION: no job can be used, or a replay
// does not come to its end; says why.
absl::StatusOr<WhatIfReport> WhatIf(const History& history, const WhatIfOptions& options);

// The nodes of a history. INVALID_ARGUMENT: there are none.
absl::StatusOr<Cluster> ToCluster(const History& history);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_HISTORY_WHAT_IF_H_
