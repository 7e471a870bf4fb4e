// Jobs of one application that differ in their work, so that the application's name is a hint and no oracle.
//
// A job's work is a multiple of its application's: its logarithm is normally distributed, with a deviation, and so that the
// mean is 1. Pure; thread-safe.

#ifndef ADAPTDL_SIMULATOR_TRACES_WORK_SCATTER_H_
#define ADAPTDL_SIMULATOR_TRACES_WORK_SCATTER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "libs/pastwork/past_work.h"
#include "simulator/traces/workload.h"

namespace adaptdl::simulator {

// `deviation`: at least 0. Each job's is by its name and the seed.
void ScatterWork(double deviation, uint64_t seed, std::vector<WorkloadJob>* workload);

// What so many jobs of each application took that were done before the first one came, in samples, by application.
std::map<std::string, pastwork::PastWork> EarlierJobs(int jobs, double deviation, uint64_t seed,
                                                      const std::vector<WorkloadJob>& workload);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_TRACES_WORK_SCATTER_H_
