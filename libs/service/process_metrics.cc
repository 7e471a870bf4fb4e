#include "libs/service/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "libs/base/file.h"
#include "libs/base/process/proc_stat.h"

namespace adaptdl::service {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily Family(const char* name, const char* help, MetricType type, double value) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  prometheus::ClientMetric metric;
  if (type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  family.metric.push_back(std::move(metric));
  return family;
}

// Seconds since 1970 at which the machine started.
double BootTime() {
  const auto content = ReadWholeFile("/proc/stat");
  if (!content.ok()) return 0;
  const size_t start = content->find("btime ");
  if (start == std::string::npos) return 0;
  double seconds = 0;
  const std::vector<std::string> line = absl::StrSplit(content->substr(start + 6), absl::MaxSplits('\n', 1));
  return absl::SimpleAtod(line[0], &seconds) ? seconds : 0;
}

int64_t OpenFiles() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  // One of them is the listing's own.
  return error ? 0 : std::distance(begin(files), end(files)) - 1;
}

double MaxFiles() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<double>(limit.rlim_cur) : 0;
}

}  // namespace

std::vector<MetricFamily> ProcessMetrics::Collect() const {
  const ProcStat stat = ReadOwnProcStat().value_or(ProcStat{});
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  const double page = static_cast<double>(sysconf(_SC_PAGESIZE));
  const auto gauge = [](const char* name, const char* help, double value) {
    return Family(name, help, MetricType::Gauge, value);
  };
  return {
      Family("process_cpu_seconds_total", "Processor time, user and system, in seconds.", MetricType::Counter,
             static_cast<double>(stat.user_ticks + stat.system_ticks) / ticks),
      gauge("process_threads", "Threads of the process.", static_cast<double>(stat.threads)),
      gauge("process_start_time_seconds", "Start of the process, in seconds since 1970.",
            BootTime() + static_cast<double>(stat.start_time) / ticks),
      gauge("process_virtual_memory_bytes", "Virtual memory in bytes.",
            static_cast<double>(stat.virtual_memory_bytes)),
      gauge("process_resident_memory_bytes", "Resident memory in bytes.",
            static_cast<double>(stat.resident_pages) * page),
      gauge("process_open_fds", "Open file descriptors.", static_cast<double>(OpenFiles())),
      gauge("process_max_fds", "Most file descriptors that may be open.", MaxFiles()),
  };
}

}  // namespace adaptdl::service
