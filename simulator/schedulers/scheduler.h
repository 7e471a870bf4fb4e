// Who decides which simulated job runs where.
//
// A scheduler may keep state between rounds; it lives for one simulation. Not thread-safe.

#ifndef ADAPTDL_SIMULATOR_SCHEDULERS_SCHEDULER_H_
#define ADAPTDL_SIMULATOR_SCHEDULERS_SCHEDULER_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libs/scheduling/job_demand.h"
#include "simulator/cluster.h"
#include "simulator/restart_times.h"
#include "simulator/simulated_job.h"

namespace adaptdl::simulator {

struct Situation {
  // Seconds since the start.
  double now = 0;
  const Cluster& cluster;
  // Submitted and not done, in order of submission.
  absl::Span<const SimulatedJob* const> jobs;
  RestartCost restart = {};
  // By node. Empty: all are up.
  absl::Span<const NodeStatus> status = {};

  NodeStatus StatusOf(int node) const { return status.empty() ? NodeStatus() : status[node]; }
  // Of the nodes that are up.
  int GpusUp() const {
    int gpus = 0;
    for (int node = 0; node < static_cast<int>(cluster.nodes().size()); ++node) {
      gpus += StatusOf(node).up ? cluster.nodes()[node].gpus : 0;
    }
    return gpus;
  }
};

// What a policy says about nodes, be they there or not.
struct NodeDemand {
  // What each job could make of nodes. Kinds are the cluster's GPU types.
  std::vector<scheduling::JobDemand> jobs;
  // Ids of nodes that run nothing and are not about to.
  std::set<std::string> idle_nodes;
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;

  // Whether jobs choose their batch size; else they keep the workload's.
  virtual bool adaptive() const = 0;

  // Where each job of the situation runs from now on, in the same order. All GPUs of a job are of one type.
  virtual absl::StatusOr<std::vector<Placement>> Schedule(const Situation& situation) = 0;

  // Whether it says what jobs could make of nodes.
  virtual bool knows_demand() const { return false; }
  // As of the last decision. REQUIRES: knows_demand(), and there was one.
  virtual NodeDemand Demand() const { return {}; }
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_SCHEDULERS_SCHEDULER_H_
