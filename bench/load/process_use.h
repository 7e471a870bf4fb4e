// What a process uses of its machine, as the kernel says.

#ifndef ADAPTDL_BENCH_LOAD_PROCESS_USE_H_
#define ADAPTDL_BENCH_LOAD_PROCESS_USE_H_

#include <sys/types.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/process/proc_stat.h"

namespace adaptdl::load {

// Processor time that the process has used.
inline double CpuSeconds(pid_t pid) {
  const ProcStat stat = ReadProcStat(pid).value_or(ProcStat{});
  return static_cast<double>(stat.user_ticks + stat.system_ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// KiB that /proc/PID/status has under the name; 0 without such a process.
inline double StatusKib(pid_t pid, absl::string_view name) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, name)) return std::stod(line.substr(name.size()));
  }
  return 0;
}

// Memory that the process has now, and the most that it has had.
inline double ResidentKib(pid_t pid) { return StatusKib(pid, "VmRSS:"); }
inline double PeakResidentKib(pid_t pid) { return StatusKib(pid, "VmHWM:"); }

}  // namespace adaptdl::load

#endif  // ADAPTDL_BENCH_LOAD_PROCESS_USE_H_
