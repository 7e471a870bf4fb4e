// Looks at the node's GPUs now and then, and says which are not fit for replicas.
//
// Calls to the driver of a GPU that is broken may hang for ever: they are made on WorkLanes, one lane for
// each GPU, and one that takes longer than `patience` counts as a lost GPU.
//
// Not thread-safe: one thread steps it.

#ifndef ADAPTDL_SERVICES_WORKER_GPU_MONITOR_H_
#define ADAPTDL_SERVICES_WORKER_GPU_MONITOR_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "services/worker/gpu_health.h"
#include "services/worker/work_lanes.h"

namespace adaptdl::worker {

class GpuMonitor {
 public:
  struct Options {
    absl::Duration period = absl::Seconds(10);
    absl::Duration patience = absl::Seconds(30);
    GpuHealthPolicy policy = {};
  };
  // Asks the driver about the GPU of that UUID. Called on lanes, also for several GPUs at once, and possibly
  // beyond the monitor's life, if it hangs.
  using Sampler = std::function<GpuSample(const std::string& gpu)>;
  // Hears what is wrong, by GPU, whenever that has changed. Called by Step().
  using Sink = std::function<void(const std::map<std::string, std::string>& problems)>;

  // `gpus`: distinct UUIDs. `clock` and `lanes` outlive it.
  GpuMonitor(const Options& options, const std::vector<std::string>& gpus, Sampler sampler,
             const Clock* clock, WorkLanes* lanes, Sink sink);

  // Takes what has been found, and looks again when it is time. To be called about once a second; waits for
  // nothing.
  void Step();

  // How much of each GPU is in use, as was found last, by GPU; of those that answer. Thread-safe.
  std::map<std::string, GpuFigures> Figures() const;

  // Whether no call to the driver is under way any more, after waiting for that for at most `patience`.
  // Thread-safe.
  bool AwaitIdle(absl::Duration patience) const;

 private:
  // What the lanes work on.
  struct Looks;

  void Post();
  // Returns whether something has changed.
  bool Take(const std::string& gpu, GpuHealth* health, absl::Time now);

  const Options options_;
  const Sampler sampler_;
  const Clock* const clock_;
  WorkLanes* const lanes_;
  const Sink sink_;
  const std::shared_ptr<Looks> looks_;
  std::map<std::string, GpuHealth> health_;
  absl::Time next_ = absl::InfinitePast();
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_GPU_MONITOR_H_
