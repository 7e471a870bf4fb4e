#include "services/worker/gpu_monitor.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "libs/base/mutex.h"
#include "libs/service/log.h"

namespace adaptdl::worker {

struct GpuMonitor::Looks {
  Mutex mutex;
  CondVar changed;
  // When each one that is under way was begun, by GPU.
  std::map<std::string, absl::Time> begun ABSL_GUARDED_BY(mutex);
  // What was found and not taken yet.
  std::map<std::string, GpuSample> found ABSL_GUARDED_BY(mutex);
  // Of the last look at each one, unless it was in vain.
  std::map<std::string, GpuFigures> figures ABSL_GUARDED_BY(mutex);
};

GpuMonitor::GpuMonitor(const Options& options, const std::vector<std::string>& gpus, Sampler sampler,
                       const Clock* clock, WorkLanes* lanes, Sink sink)
    : options_(options),
      sampler_(std::move(sampler)),
      clock_(clock),
      lanes_(lanes),
      sink_(std::move(sink)),
      looks_(std::make_shared<Looks>()) {
  for (const std::string& gpu : gpus) health_.emplace(gpu, options.policy);
}

void GpuMonitor::Step() {
  const absl::Time now = clock_->Steady();
  if (now >= next_) {
    next_ = now + options_.period;
    Post();
  }
  bool changed = false;
  for (auto& [gpu, health] : health_) changed = Take(gpu, &health, now) || changed;
  if (!changed) return;
  std::map<std::string, std::string> problems;
  for (const auto& [gpu, health] : health_) {
    if (!health.problem().empty()) problems[gpu] = health.problem();
  }
  sink_(problems);
}

void GpuMonitor::Post() {
  for (const auto& [gpu, health] : health_) {
    {
      MutexLock lock(&looks_->mutex);
      if (!looks_->begun.emplace(gpu, clock_->Steady()).second) continue;
    }
    lanes_->Post(gpu, [looks = looks_, sampler = sampler_, gpu = gpu] {
      GpuSample sample = sampler(gpu);
      MutexLock lock(&looks->mutex);
      looks->found[gpu] = std::move(sample);
      looks->begun.erase(gpu);
      looks->changed.SignalAll();
    });
  }
}

bool GpuMonitor::Take(const std::string& gpu, GpuHealth* health, absl::Time now) {
  std::optional<GpuSample> sample;
  bool hangs = false;
  {
    MutexLock lock(&looks_->mutex);
    if (const auto found = looks_->found.find(gpu); found != looks_->found.end()) {
      sample = std::move(found->second);
      looks_->found.erase(found);
      if (sample->lost.empty()) looks_->figures[gpu] = sample->figures;
    }
    const auto begun = looks_->begun.find(gpu);
    hangs = begun != looks_->begun.end() && now - begun->second > options_.patience;
    if (hangs || (sample.has_value() && !sample->lost.empty())) looks_->figures.erase(gpu);
  }
  const std::string before = health->problem();
  const bool was_slow = !health->slowdown().empty();
  if (sample.has_value()) health->Observe(*sample, now);
  if (hangs) health->Lose("the driver does not answer for it");
  if (!was_slow && !health->slowdown().empty()) {
    log::Warning("GPU is slowed down by heat", {{"gpu", gpu}, {"reason", health->slowdown()}});
  }
  const std::string problem = health->problem();
  if (problem == before) return false;
  if (problem.empty()) {
    log::Info("GPU is given to replicas again", {{"gpu", gpu}});
  } else {
    log::Warning("GPU is not given to replicas any more", {{"gpu", gpu}, {"reason", problem}});
  }
  return true;
}

std::map<std::string, GpuFigures> GpuMonitor::Figures() const {
  MutexLock lock(&looks_->mutex);
  return looks_->figures;
}

bool GpuMonitor::AwaitIdle(absl::Duration patience) const {
  const absl::Time end = SteadyNow() + patience;
  MutexLock lock(&looks_->mutex);
  while (!looks_->begun.empty() && SteadyNow() < end)
    looks_->changed.WaitFor(&looks_->mutex, end - SteadyNow());
  return looks_->begun.empty();
}

}  // namespace adaptdl::worker
