// How much of this machine is in use, by whomever: processors and memory as the kernel says, GPUs as their monitor does.

#ifndef ADAPTDL_SERVICES_WORKER_MACHINE_USE_H_
#define ADAPTDL_SERVICES_WORKER_MACHINE_USE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "adaptdl/v1/node.pb.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "services/worker/gpu_health.h"

namespace adaptdl::worker {

// Time of all processors together since the machine's start, in the kernel's ticks.
struct ProcessorTime {
  int processors = 0;
  int64_t busy = 0;
  int64_t all = 0;
};

// Of /proc/stat. Absent: it does not say.
std::optional<ProcessorTime> ParseProcessorTime(absl::string_view stat);

struct MemoryFigures {
  int64_t used_bytes = 0;
  int64_t total_bytes = 0;
};

// Of /proc/meminfo; what the kernel can take back at once is not in use. Absent: it does not say.
std::optional<MemoryFigures> ParseMemory(absl::string_view meminfo);

struct GpuOnMachine {
  int index = 0;
  std::string uuid;
  GpuFigures figures;
};

struct MachineFigures {
  int processors = 0;
  // Of these, on average since the look before.
  double busy_processors = 0;
  MemoryFigures memory;
  std::vector<GpuOnMachine> gpus;

  v1::MachineUse ToProto() const;
};

// Thread-safe.
class MachineWatch {
 public:
  struct Options {
    std::string stat_file = "/proc/stat";
    std::string meminfo_file = "/proc/meminfo";
    // Whoever looks more often is told the same again.
    absl::Duration period = absl::Seconds(1);
  };
  // `gpus` says how these are now, at once. It and `clock` outlive the watch.
  MachineWatch(Options options, const Clock* clock, std::function<std::vector<GpuOnMachine>()> gpus);

  // Waits for no disk. Absent: the kernel does not say.
  std::optional<MachineFigures> Look();

 private:
  std::optional<MachineFigures> Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const Clock* const clock_;
  const std::function<std::vector<GpuOnMachine>()> gpus_;
  Mutex mutex_;
  absl::Time next_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  // Of the look before.
  ProcessorTime before_ ABSL_GUARDED_BY(mutex_);
  std::optional<MachineFigures> figures_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_MACHINE_USE_H_
