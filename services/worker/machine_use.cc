#include "services/worker/machine_use.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "libs/base/file.h"

namespace adaptdl::worker {
namespace {

// user, nice, system, idle, iowait, irq, softirq, steal. What guests take is in "user" and "nice" too.
constexpr int kKindsOfTime = 8;
constexpr int kIdle = 3;
constexpr int kWaitsForDisk = 4;

std::vector<absl::string_view> Words(absl::string_view line) {
  return absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
}

// "MemTotal:  2048 kB" in bytes.
std::optional<int64_t> Bytes(const std::vector<absl::string_view>& words) {
  int64_t kibibytes = 0;
  constexpr int64_t kMost = int64_t{1} << 50;
  if (words.size() < 2 || !absl::SimpleAtoi(words[1], &kibibytes)) return std::nullopt;
  if (kibibytes < 0 || kibibytes > kMost) return std::nullopt;
  return kibibytes * 1024;
}

std::optional<ProcessorTime> SumOfTimes(const std::vector<absl::string_view>& words) {
  ProcessorTime time;
  for (int kind = 0; kind < kKindsOfTime; ++kind) {
    int64_t ticks = 0;
    const size_t word = static_cast<size_t>(kind) + 1;
    if (word >= words.size() || !absl::SimpleAtoi(words[word], &ticks)) return std::nullopt;
    time.all += ticks;
    if (kind != kIdle && kind != kWaitsForDisk) time.busy += ticks;
  }
  return time;
}

}  // namespace

std::optional<ProcessorTime> ParseProcessorTime(absl::string_view stat) {
  std::optional<ProcessorTime> time;
  int processors = 0;
  for (const absl::string_view line : absl::StrSplit(stat, '\n')) {
    if (!absl::StartsWith(line, "cpu")) break;  // They come first.
    const std::vector<absl::string_view> words = Words(line);
    if (words[0] == "cpu") {
      time = SumOfTimes(words);
    } else {
      ++processors;
    }
  }
  if (!time.has_value() || processors == 0) return std::nullopt;
  time->processors = processors;
  return time;
}

std::optional<MemoryFigures> ParseMemory(absl::string_view meminfo) {
  std::optional<int64_t> total;
  std::optional<int64_t> available;
  for (const absl::string_view line : absl::StrSplit(meminfo, '\n')) {
    if (absl::StartsWith(line, "MemTotal:")) total = Bytes(Words(line));
    if (absl::StartsWith(line, "MemAvailable:")) available = Bytes(Words(line));
  }
  if (!total.has_value() || !available.has_value()) return std::nullopt;
  return MemoryFigures{.used_bytes = std::max<int64_t>(*total - *available, 0), .total_bytes = *total};
}

v1::MachineUse MachineFigures::ToProto() const {
  v1::MachineUse use;
  use.set_cpus(busy_processors);
  use.set_memory_bytes(memory.used_bytes);
  use.set_memory_total_bytes(memory.total_bytes);
  for (const GpuOnMachine& gpu : gpus) {
    v1::GpuUse& shown = *use.add_gpus();
    shown.set_index(gpu.index);
    shown.set_uuid(gpu.uuid);
    shown.set_utilization(gpu.figures.utilization.value_or(0));
    shown.set_memory_bytes(gpu.figures.memory_bytes);
    shown.set_memory_total_bytes(gpu.figures.memory_total_bytes);
    if (gpu.figures.temperature_celsius) shown.set_temperature_celsius(*gpu.figures.temperature_celsius);
    if (gpu.figures.power_watts) shown.set_power_watts(*gpu.figures.power_watts);
  }
  return use;
}

MachineWatch::MachineWatch(Options options, const Clock* clock,
                           std::function<std::vector<GpuOnMachine>()> gpus)
    : options_(std::move(options)), clock_(clock), gpus_(std::move(gpus)) {}

std::optional<MachineFigures> MachineWatch::Look() {
  MutexLock lock(&mutex_);
  const absl::Time now = clock_->Steady();
  if (now < next_) return figures_;
  next_ = now + options_.period;
  figures_ = Read();
  return figures_;
}

std::optional<MachineFigures> MachineWatch::Read() {
  const absl::StatusOr<std::string> stat = ReadWholeFile(options_.stat_file);
  const absl::StatusOr<std::string> meminfo = ReadWholeFile(options_.meminfo_file);
  if (!stat.ok() || !meminfo.ok()) return std::nullopt;
  const std::optional<ProcessorTime> time = ParseProcessorTime(*stat);
  const std::optional<MemoryFigures> memory = ParseMemory(*meminfo);
  if (!time.has_value() || !memory.has_value()) return std::nullopt;
  MachineFigures figures{.processors = time->processors, .memory = *memory, .gpus = gpus_()};
  // The first look tells of all the time since the machine's start. Processors that go away take their time with them.
  const int64_t all = time->all - before_.all;
  const int64_t busy = time->busy - before_.busy;
  if (all > 0) {
    const double part = std::clamp(static_cast<double>(busy) / static_cast<double>(all), 0.0, 1.0);
    figures.busy_processors = part * time->processors;
  }
  before_ = *time;
  return figures;
}

}  // namespace adaptdl::worker
