// One picture of a simulation: the distribution of completion times, the GPUs in use over time, and the
// allocation timeline with one bar per job. Pure function; thread-safe.

#ifndef ADAPTDL_SIMULATOR_REPORT_PLOT_H_
#define ADAPTDL_SIMULATOR_REPORT_PLOT_H_

#include <string>

#include "simulator/cluster.h"
#include "simulator/engine.h"

namespace adaptdl::simulator {

// A self-contained SVG document. REQUIRES: the result has jobs.
std::string Plot(const std::string& title, const Cluster& cluster, const SimulationResult& result);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_REPORT_PLOT_H_
