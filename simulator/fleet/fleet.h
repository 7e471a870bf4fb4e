// `adaptdl-sim fleet`: a fleet of clusters under one front, of which some are simulated in full.
//
//   absl::StatusOr<FleetResult> result = SimulateFleet(options);
//
// First every submission is routed. Then the clusters know nothing of each other, and those of the sample are simulated one by one,
// each by the engine and a scheduler of its own, on several threads. Deterministic, whatever the number of threads, but for
// processor times. Thread-safe.

#ifndef ADAPTDL_SIMULATOR_FLEET_FLEET_H_
#define ADAPTDL_SIMULATOR_FLEET_FLEET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/fleet/front.h"
#include "simulator/simulation_options.h"

namespace adaptdl::simulator {

struct FleetOptions {
  int clusters = 10;
  // What clusters are made of (Cluster::Parse): the first cluster is of the first kind, the next one of the next, over and over.
  std::vector<std::string> kinds = {"a100:2000x8"};
  // Clusters that are simulated in full, chosen by seed. Negative: all.
  int simulated = -1;
  // Of the whole fleet: the mean of a week.
  double jobs_per_hour = 1000;
  // For so long jobs are submitted, in seconds. All are followed to their end.
  double duration = 7 * 24 * 3600.0;
  // 0: twenty for each cluster.
  int tenants = 0;
  FrontOptions front;
  std::string policy = "goodput";
  // Length of a round, restarts and failures. What restarts cost is said by the kinds of models, if nothing is set.
  SimulationOptions simulation;
  int threads = 1;
  uint64_t seed = 1;
};

// A cluster as the front's model of it has it.
struct RoutedCluster {
  int64_t jobs = 0;
  // Work that it was given, by what its GPUs can do in the duration.
  double load = 0;
  double mean_jct = 0;
  int most_unfinished = 0;
};

// A cluster that was simulated in full. Times are in seconds.
struct FullCluster {
  int cluster = 0;
  std::vector<double> jcts;
  std::vector<double> waits;
  // Part of the GPUs that jobs held while others were submitted.
  double utilisation = 0;
  int64_t restarts = 0;
  int node_failures = 0;
  double lost_seconds = 0;
  int64_t decisions = 0;
  // Time of decisions, all together.
  double decision_seconds = 0;
};

struct FleetResult {
  std::vector<RoutedCluster> routed;
  std::vector<FullCluster> full;
  int64_t jobs = 0;
  int gpus = 0;
  // Processor time, in seconds.
  double routing_cpu = 0;
  double simulation_cpu = 0;
};

// INVALID_ARGUMENT: an option is out of its range, named. Others: as of Simulate().
absl::StatusOr<FleetResult> SimulateFleet(const FleetOptions& options);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_FLEET_FLEET_H_
