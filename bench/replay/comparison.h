// The same workload as it ran and as it was simulated. Pure functions; thread-safe.

#ifndef ADAPTDL_BENCH_REPLAY_COMPARISON_H_
#define ADAPTDL_BENCH_REPLAY_COMPARISON_H_

#include <string>

#include "bench/replay/live_run.h"
#include "nlohmann/json.hpp"
#include "simulator/engine.h"

namespace adaptdl::replay {

struct Comparison {
  // Mean time from submission to completion, in seconds of the workload.
  double live_jct = 0;
  double simulated_jct = 0;
  // Simulated by live, of each job: part of the jobs within 15 %, and the median deviation.
  double within_15_percent = 0;
  double median_deviation = 0;
  // Replica seconds of all jobs, simulated by live; and half the sum of what the jobs differ by, by the sum.
  double replica_seconds_ratio = 0;
  double misplaced_part = 0;

  double jct_ratio() const { return simulated_jct / live_jct; }
};

// REQUIRES: both have the same jobs, in the same order, and at least one.
Comparison Compare(const LiveRun& live, const simulator::SimulationResult& simulated);

// One object: the comparison, and both sides of each job.
nlohmann::json ToJson(const LiveRun& live, const simulator::SimulationResult& simulated);
// For people, with the goals beside the figures.
std::string ToTable(const Comparison& comparison);

}  // namespace adaptdl::replay

#endif  // ADAPTDL_BENCH_REPLAY_COMPARISON_H_
