// Processor time, for reports. Thread-safe.

#ifndef ADAPTDL_SIMULATOR_REPORT_CPU_TIME_H_
#define ADAPTDL_SIMULATOR_REPORT_CPU_TIME_H_

#include <ctime>

namespace adaptdl::simulator {

// Of this process, all threads together, in seconds.
inline double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_REPORT_CPU_TIME_H_
