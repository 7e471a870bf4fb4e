// Jobs of a live cluster's history as jobs that can be simulated.
//
// A job's speed is its fitted throughput model, its efficiency its gradient statistics, its work the
// scale-invariant steps that it had done when it ended, or, while it has not, those that its program
// declares.
//
// On a GPU type that a job has not measured, its compute times are scaled by the ratio of speeds of one GPU:
// the one given, or else the mean (geometric) of the jobs that have measured both types, or else 1.
//
// Pure; thread-safe.

#ifndef ADAPTDL_SIMULATOR_HISTORY_FITTED_WORKLOAD_H_
#define ADAPTDL_SIMULATOR_HISTORY_FITTED_WORKLOAD_H_

#include <map>
#include <string>
#include <vector>

#include "simulator/cluster.h"
#include "simulator/history/history.h"

namespace adaptdl::simulator {

struct LeftOut {
  std::string job;
  // Why, for people: "it has not measured itself".
  std::string reason;
};

struct FittedWorkload {
  // In order of submission, the first at 0 s.
  std::vector<WorkloadJob> jobs;
  // Index of each in the history.
  std::vector<int> recorded;
  std::vector<LeftOut> left_out;
  // What was assumed, one sentence each, for people.
  std::vector<std::string> notes;
};

// For a cluster with these GPU types. `speeds`: of one GPU by type, in any unit; those that are missing count
// 1 if any is there.
FittedWorkload FitWorkload(const History& history, const std::vector<std::string>& gpu_types,
                           const std::map<std::string, double>& speeds);

// Leaves those out that need more than the whole cluster has.
void LeaveOutWhatDoesNotFit(const Cluster& cluster, const std::string& what, FittedWorkload* workload);

// What to tell the user when all jobs were left out: names the first few.
std::string NothingToReplay(const std::vector<LeftOut>& left_out);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_HISTORY_FITTED_WORKLOAD_H_
