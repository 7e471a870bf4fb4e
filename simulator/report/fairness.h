// Finish-time fairness: how long a job took, divided by how long it would have taken alone on its fair share.
//
// The fair share is 1/n of the cluster, n being the mean number of jobs in the system over the job's life,
// itself included. A job alone runs by its own rules (batch size, learning, one restart cost at its start) on
// that part of one GPU type, the type on which it is fastest; shares between two whole numbers of GPUs mean a
// speed between theirs, and a job need not use all of its share.
//
// Pure functions; thread-safe.

#ifndef ADAPTDL_SIMULATOR_REPORT_FAIRNESS_H_
#define ADAPTDL_SIMULATOR_REPORT_FAIRNESS_H_

#include <vector>

#include "absl/types/span.h"
#include "simulator/cluster.h"
#include "simulator/engine.h"

namespace adaptdl::simulator {

// Mean number of jobs in the system over each job's life.
std::vector<double> MeanContention(const std::vector<JobOutcome>& jobs);

// By job of the result. More than 1: sharing made it slower than its share alone would have.
// REQUIRES: `result` is that of `workload` under these options.
std::vector<double> FinishTimeFairness(const Cluster& cluster, absl::Span<const WorkloadJob> workload,
                                       bool adaptive, const SimulationOptions& options,
                                       const SimulationResult& result);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_REPORT_FAIRNESS_H_
