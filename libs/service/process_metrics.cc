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

// Fields of /proc/self/stat from the third on (proc(5)); the second, the program's name, may hold blanks.
std::vector<std::string> StatFields() {
  const auto content = ReadWholeFile("/proc/self/stat");
  if (!content.ok()) return {};
  const size_t name_end = content->rfind(')');
  if (name_end == std::string::npos) return {};
  return absl::StrSplit(content->substr(name_end + 2), ' ');
}

double Number(const std::vector<std::string>& fields, size_t field) {
  double value = 0;
  if (field < fields.size() && absl::SimpleAtod(fields[field], &value)) return value;
  return 0;
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
  const std::vector<std::string> fields = StatFields();
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  const double page = static_cast<double>(sysconf(_SC_PAGESIZE));
  const auto gauge = [](const char* name, const char* help, double value) {
    return Family(name, help, MetricType::Gauge, value);
  };
  // The number in proc(5) less 3 is the index here.
  return {
      Family("process_cpu_seconds_total", "Processor time, user and system, in seconds.", MetricType::Counter,
             (Number(fields, 11) + Number(fields, 12)) / ticks),
      gauge("process_threads", "Threads of the process.", Number(fields, 17)),
      gauge("process_start_time_seconds", "Start of the process, in seconds since 1970.",
            BootTime() + Number(fields, 19) / ticks),
      gauge("process_virtual_memory_bytes", "Virtual memory in bytes.", Number(fields, 20)),
      gauge("process_resident_memory_bytes", "Resident memory in bytes.", Number(fields, 21) * page),
      gauge("process_open_fds", "Open file descriptors.", static_cast<double>(OpenFiles())),
      gauge("process_max_fds", "Most file descriptors that may be open.", MaxFiles()),
  };
}

}  // namespace adaptdl::service
