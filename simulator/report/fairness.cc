#include "simulator/report/fairness.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "simulator/simulated_job.h"

namespace adaptdl::simulator {
namespace {

// A job alone first runs so long before it adapts, as in a round.
constexpr double kFirstLook = 60;
constexpr double kForever = 1e12;

// Speeds (1 / duration) of jobs alone, by GPUs.
class LoneJobs {
 public:
  LoneJobs(const Cluster& cluster, bool adaptive, const SimulationOptions& options)
      : cluster_(cluster), adaptive_(adaptive), options_(options) {}

  // On any real number of GPUs of one type.
  double Speed(const WorkloadJob& spec, int type, double gpus) {
    const int most = MostGpus(spec, type);
    gpus = std::min(gpus, static_cast<double>(most));
    const int whole = static_cast<int>(gpus);
    const double low = whole == 0 ? 0 : BestSpeed(spec, type, whole);
    if (whole == most) {
      return low;
    }
    return low + (gpus - whole) * (BestSpeed(spec, type, whole + 1) - low);
  }

 private:
  bool Adapts(const WorkloadJob& spec) const { return adaptive_ && !spec.plain; }

  int MostGpus(const WorkloadJob& spec, int type) const {
    const Application& app = *spec.application;
    const int64_t batch = Adapts(spec) ? app.max_batch_size() : spec.batch_size;
    const int64_t by_batch = std::max<int64_t>(batch / app.min_local[type], 1);
    return static_cast<int>(std::min<int64_t>({by_batch, app.max_replicas, cluster_.total_gpus(type)}));
  }

  // On at most so many GPUs.
  double BestSpeed(const WorkloadJob& spec, int type, int gpus) {
    std::vector<double>& best =
        best_[{spec.application.get(), Adapts(spec) ? 0 : spec.batch_size, type, spec.work}];
    while (static_cast<int>(best.size()) < gpus) {
      const double speed = Run(spec, type, static_cast<int>(best.size()) + 1);
      best.push_back(best.empty() ? speed : std::max(speed, best.back()));
    }
    return best[gpus - 1];
  }

  // 0 if the traces do not cover it.
  double Run(const WorkloadJob& spec, int type, int gpus) const {
    SimulatedJob job(spec, static_cast<int>(cluster_.gpu_types().size()),
                     {adaptive_, options_.search, false});
    const double restart = options_.restart().Expected(*spec.application);
    job.Reallocate(cluster_.Pack(type, gpus), type, {.seconds = restart});
    if (!job.Advance(restart + kFirstLook, 1).ok() || !job.Advance(kForever, 1).ok()) {
      return 0;
    }
    return 1 / *job.completed();
  }

  const Cluster& cluster_;
  const bool adaptive_;
  const SimulationOptions& options_;
  std::map<std::tuple<const Application*, int64_t, int, double>, std::vector<double>>
      best_;  // by GPUs, from 1
};

}  // namespace

std::vector<double> MeanContention(const std::vector<JobOutcome>& jobs) {
  std::vector<double> contention;
  for (const JobOutcome& job : jobs) {
    double job_seconds = 0;
    for (const JobOutcome& other : jobs) {
      const double overlap =
          std::min(job.completed, other.completed) - std::max(job.submitted, other.submitted);
      job_seconds += std::max(overlap, 0.0);
    }
    contention.push_back(job_seconds / job.jct());
  }
  return contention;
}

std::vector<double> FinishTimeFairness(const Cluster& cluster, absl::Span<const WorkloadJob> workload,
                                       bool adaptive, const SimulationOptions& options,
                                       const SimulationResult& result) {
  LoneJobs lone(cluster, adaptive, options);
  const std::vector<double> contention = MeanContention(result.jobs);
  std::vector<double> fairness;
  for (size_t i = 0; i < result.jobs.size(); ++i) {
    double speed = 0;
    for (int type = 0; type < static_cast<int>(cluster.gpu_types().size()); ++type) {
      speed = std::max(speed, lone.Speed(workload[i], type, cluster.total_gpus(type) / contention[i]));
    }
    fairness.push_back(result.jobs[i].jct() * speed);
  }
  return fairness;
}

}  // namespace adaptdl::simulator
