// One simulated training job: it advances through its epochs at the speed that its traces give, measures
// itself as a real one does, and chooses its batch size from what it has measured.
//
// What the job knows (profile, fitted model, gradient statistics) is all that a scheduler may ask about,
// except for baselines that are defined by perfect knowledge.
//
//   waiting ──1──▶ restarting ──2──▶ running ──3──▶ done
//      ▲               │                │
//      └──────4,5──────┴───────4,5──────┘
//   1 Reallocate() to some GPUs; again from restarting or running: the restart begins anew
//   2 the restart's time is over     3 the last epoch is over     4 Reallocate() to none
//   5 Crash()
//
// A plain job does not adapt, and begins anew whenever it is stopped or moved.
//
// Not thread-safe.

#ifndef ADAPTDL_SIMULATOR_SIMULATED_JOB_H_
#define ADAPTDL_SIMULATOR_SIMULATED_JOB_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "libs/goodput/fit.h"
#include "libs/goodput/model.h"
#include "simulator/batch_choice.h"
#include "simulator/cluster.h"
#include "simulator/traces/workload.h"

namespace adaptdl::simulator {

struct JobOptions {
  // Whether the job chooses its batch size; else it keeps the workload's.
  bool adaptive = true;
  BatchSearch search = BatchSearch::kGrid;
  // Whether epochs end on whole seconds, as in the published simulators.
  bool whole_seconds = false;
  // Time between checkpoints while it runs, in seconds; one more is written whenever it is stopped in peace.
  double checkpoint_seconds = 600;
  // As of SimulationOptions.
  double gradient_memory = 0;
  int gradient_period = 8;
};

class SimulatedJob {
 public:
  // What a job has learned on one GPU type.
  struct Knowledge {
    std::vector<goodput::Measurement> profile;
    // Nothing until the first measurement.
    std::optional<goodput::PerfParams> perf;
  };

  // `spec` outlives the job. `gpu_types`: how many the cluster has.
  SimulatedJob(const WorkloadJob& spec, int gpu_types, const JobOptions& options);

  const WorkloadJob& spec() const { return spec_; }
  const Application& application() const { return *spec_.application; }

  // Runs until then, at `speed` times the speed of the traces. No-op for the part after its completion.
  // FAILED_PRECONDITION: the traces do not cover what the job runs.
  absl::Status Advance(double until, double speed);

  // When it next has something to tell, if nothing changes: its epoch ends, or its first report after a
  // restart or the last one is due. nullopt: it does not run. REQUIRES: it was advanced to now.
  absl::StatusOr<std::optional<double>> NextEvent(double speed, double report_period) const;

  struct Change {
    // Time without progress.
    double seconds = 0;
    // Time before that, in which it goes on as it was, if it runs.
    double newcomers_seconds = 0;
    // Loses nothing, and is not counted.
    bool is_free = false;
  };
  // New GPUs (all of one type) from now on.
  void Reallocate(const Placement& placement, int gpu_type, const Change& change);

  // Loses its GPUs without warning, and with them what it did since the last checkpoint.
  void Crash();

  // Seconds since the start of the simulation.
  bool done() const { return completed_.has_value(); }
  std::optional<double> completed() const { return completed_; }
  std::optional<double> first_started() const { return first_started_; }

  const Placement& placement() const { return placement_; }
  int gpu_type() const { return gpu_type_; }
  int gpus() const { return gpus_; }
  // Samples per step, over all replicas and accumulation steps. 0 without GPUs.
  int64_t batch_size() const;
  int epoch() const { return epoch_; }
  // Scale-invariant iterations that are done, and those at which it is done.
  double progress() const { return progress_ * spec_.work; }
  double total_progress() const {
    return application().curve.ProgressAfter(application().curve.epochs() - 1) * spec_.work;
  }
  int restarts() const { return restarts_; }
  int crashes() const { return crashes_; }
  // Time spent on work that was lost, in seconds.
  double lost_seconds() const { return lost_seconds_; }
  // Has GPUs, but makes no progress yet.
  bool restarting() const { return !placement_.empty() && restart_left_ > 0; }
  // GPU seconds, restarts included.
  double attained_service() const { return attained_service_; }
  bool adaptive() const { return options_.adaptive; }
  // Time with GPUs, restarts included, and what of it would be lost if it were stopped now, in seconds.
  double run_seconds() const { return run_seconds_; }
  double unsaved_seconds() const;

  // Most replicas that it ever measured itself with; 0 if never.
  int profiled_replicas() const { return profiled_replicas_; }
  // Counts what was measured first: changes of the profile on any type.
  int profile_version() const { return profile_version_; }
  const Knowledge& knowledge(int gpu_type) const { return knowledge_[gpu_type]; }
  const goodput::GradParams& gradient() const { return gradient_; }
  BatchBounds Bounds(int gpu_type) const;

 private:
  struct Checkpoint {
    double time = 0;
    int epoch = 0;
    double progress = 0;
  };

  // What it works on, which may differ from what it has.
  struct Work {
    goodput::Topology topology = {0, 0};
    std::optional<StepTimes::Shape> shape = {};
    goodput::BatchConfig batch = {};
  };

  // Works on all that it has from now on, but for the next seconds.
  void Begin(double restart_seconds);
  absl::Status AdvanceWork(double until, double speed);
  // The course of its averages over some seconds.
  void RememberGradient(const goodput::GradParams& current, double seconds, const StepTime& time);
  // Goes back to the last checkpoint.
  void LoseWork();
  // Writes the checkpoints that are due in the next seconds, which pass at a constant speed.
  void WriteCheckpoints(double seconds, double rate);
  // REQUIRES: it has GPUs.
  absl::StatusOr<StepTime> TrueStepTime() const;
  // Scale-invariant iterations per second.
  double TrueSpeed(const StepTime& time) const;
  absl::Status Learn(const StepTime& time);
  void ChooseBatch();

  const WorkloadJob& spec_;
  JobOptions options_;

  double clock_ = 0;
  // In the application's iterations, whose number is the same whatever the job's own work is.
  double progress_ = 0;
  int epoch_ = 0;
  std::optional<double> completed_;
  std::optional<double> first_started_;
  double attained_service_ = 0;
  double run_seconds_ = 0;
  int restarts_ = 0;
  Checkpoint checkpoint_;
  int crashes_ = 0;
  double lost_seconds_ = 0;

  Placement placement_;
  int gpu_type_ = 0;
  int gpus_ = 0;
  double restart_left_ = 0;
  Work work_;
  // Newcomers are on their way, for so long; then it restarts for so long.
  double newcomers_left_ = 0;
  double restart_after_ = 0;

  std::vector<Knowledge> knowledge_;  // by GPU type
  goodput::GradParams gradient_;
  // What the library keeps of past estimates (NoiseScale): their weights, and sums of these times each.
  struct GradientSums {
    double weight = 0;
    double weight_square = 0;
    double sqr = 0;
    double surprise_square = 0;
    double var = 0;
  };
  GradientSums gradient_sums_;
  int profiled_replicas_ = 0;
  int profile_version_ = 0;
};

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_SIMULATED_JOB_H_
