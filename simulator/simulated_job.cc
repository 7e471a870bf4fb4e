#include "simulator/simulated_job.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace adaptdl::simulator {
namespace {

// An epoch that would end this soon after the time is up ends in time: event times are sums of fractions.
constexpr double kSlack = 1e-6;

}  // namespace

SimulatedJob::SimulatedJob(const WorkloadJob& spec, int gpu_types, const JobOptions& options)
    : spec_(spec), options_(options), knowledge_(gpu_types) {
  options_.adaptive = options.adaptive && !spec.plain;
}

double SimulatedJob::unsaved_seconds() const {
  return spec_.plain && !placement_.empty() ? std::max(clock_ - checkpoint_.time, 0.0) : 0;
}

BatchBounds SimulatedJob::Bounds(int gpu_type) const {
  const Application& app = application();
  BatchBounds bounds{app.init_batch_size(), app.max_batch_size(), app.min_local[gpu_type],
                     app.max_local[gpu_type], app.accumulation};
  if (app.local_limit_per_placement && work_.shape && gpu_type == gpu_type_) {
    bounds.max_local = std::min(bounds.max_local, work_.shape->max_local());
  }
  return bounds;
}

int64_t SimulatedJob::batch_size() const {
  return work_.topology.replicas * work_.batch.atomic_batch_size * (work_.batch.accumulation_steps + 1);
}

absl::StatusOr<StepTime> SimulatedJob::TrueStepTime() const {
  const std::optional<StepTime> time = work_.shape->At(work_.batch.atomic_batch_size);
  const Application& app = application();
  if (!time || !app.curve.Covers(batch_size())) {
    return absl::FailedPreconditionError(absl::StrCat(
        spec_.name, ": the traces of ", app.name, " do not cover ", work_.topology.replicas, " replicas on ",
        work_.topology.nodes, " nodes with atomic batch size ", work_.batch.atomic_batch_size, " and ",
        work_.batch.accumulation_steps, " accumulation steps"));
  }
  return *time;
}

double SimulatedJob::TrueSpeed(const StepTime& time) const {
  const goodput::GradParams gradient = application().curve.Gradient(batch_size(), epoch_);
  const double scale =
      static_cast<double>(batch_size()) / static_cast<double>(application().init_batch_size());
  const double gain = (gradient.var + gradient.sqr) / (gradient.var / scale + gradient.sqr);
  const double steps = static_cast<double>(work_.batch.accumulation_steps);
  return gain / (time.step + steps * (time.step - time.sync)) / application().calibration / spec_.work;
}

absl::Status SimulatedJob::Learn(const StepTime& time) {
  const goodput::GradParams current = application().curve.Gradient(batch_size(), epoch_);
  if (options_.gradient_memory == 0 || gradient_sums_.weight == 0) gradient_ = current;
  Knowledge& knowledge = knowledge_[gpu_type_];
  const goodput::Topology topology = work_.topology;
  for (const goodput::Measurement& known : knowledge.profile) {
    if (known.nodes == topology.nodes && known.replicas == topology.replicas &&
        known.atomic_batch_size == work_.batch.atomic_batch_size) {
      return absl::OkStatus();
    }
  }
  const double factor = application().calibration;
  knowledge.profile.push_back({.nodes = topology.nodes,
                               .replicas = topology.replicas,
                               .atomic_batch_size = work_.batch.atomic_batch_size,
                               .accum_time = (time.step - time.sync) * factor,
                               .optim_time = time.step * factor});
  profiled_replicas_ = std::max(profiled_replicas_, topology.replicas);
  ++profile_version_;
  absl::StatusOr<goodput::PerfParams> perf = goodput::FitPerfParams(knowledge.profile);
  if (!perf.ok()) {
    return absl::Status(perf.status().code(), absl::StrCat(spec_.name, ": ", perf.status().message()));
  }
  knowledge.perf = *perf;
  return absl::OkStatus();
}

void SimulatedJob::ChooseBatch() {
  const BatchBounds bounds = Bounds(gpu_type_);
  const Application& app = application();
  const int gpus = work_.topology.replicas;
  if (!options_.adaptive || app.kept_batch_size > 0) {
    work_.batch = SplitBatch(options_.adaptive ? app.kept_batch_size : spec_.batch_size, gpus, bounds);
  } else if (const Knowledge& knowledge = knowledge_[gpu_type_]; !knowledge.perf) {
    work_.batch = FirstBatch(gpus, bounds);
  } else {
    work_.batch = BestBatch(goodput::GoodputFunction(*knowledge.perf, gradient_, app.init_batch_size()),
                            work_.topology, bounds, options_.search);
  }
}

void SimulatedJob::Reallocate(const Placement& placement, int gpu_type, const Change& change) {
  if (spec_.plain && !placement_.empty()) LoseWork();
  placement_ = placement;
  gpus_ = CountGpus(placement);
  gpu_type_ = gpu_type;
  newcomers_left_ = 0;
  checkpoint_ = {clock_ + (change.is_free ? 0 : change.seconds), epoch_, progress_};
  if (placement.empty()) {
    work_ = {};
    return;
  }
  if (!change.is_free) {
    if (first_started_) {
      ++restarts_;
    } else {
      first_started_ = clock_;
    }
  }
  if (change.newcomers_seconds > 0 && work_.topology.replicas > 0 && restart_left_ == 0) {
    newcomers_left_ = change.newcomers_seconds;
    restart_after_ = change.seconds;
    return;
  }
  Begin(change.is_free ? restart_left_ : change.seconds);
}

void SimulatedJob::Begin(double restart_seconds) {
  std::vector<int> shape;
  for (const NodeShare& share : placement_) {
    shape.push_back(share.gpus);
  }
  work_.topology = {static_cast<int>(placement_.size()), gpus_};
  work_.shape = application().step_times[gpu_type_].Resolve(shape);
  ChooseBatch();
  restart_left_ = restart_seconds;
}

void SimulatedJob::Crash() {
  ++crashes_;
  LoseWork();
  Reallocate({}, gpu_type_, {});
}

void SimulatedJob::LoseWork() {
  lost_seconds_ += std::max(clock_ - checkpoint_.time, 0.0);
  checkpoint_.time = clock_;
  epoch_ = checkpoint_.epoch;
  progress_ = checkpoint_.progress;
}

void SimulatedJob::WriteCheckpoints(double seconds, double rate) {
  if (spec_.plain) return;
  // One that is due at the very end is left to what follows, which may be the next epoch.
  const double periods =
      std::floor((clock_ + seconds - kSlack - checkpoint_.time) / options_.checkpoint_seconds);
  if (periods < 1) {
    return;
  }
  const double time = checkpoint_.time + periods * options_.checkpoint_seconds;
  checkpoint_ = {time, epoch_, progress_ + rate * std::max(time - clock_, 0.0)};
}

void SimulatedJob::RememberGradient(const goodput::GradParams& current, double seconds,
                                    const StepTime& time) {
  if (options_.gradient_memory == 0 || seconds <= 0) return;
  const auto steps = static_cast<double>(work_.batch.accumulation_steps);
  const double step = (time.step + steps * (time.step - time.sync)) * application().calibration;
  const double scale =
      static_cast<double>(batch_size()) / static_cast<double>(application().init_batch_size());
  // What remains of the past after one estimate, and after all of them; each weighs what it takes away.
  const double each = std::exp(-scale * options_.gradient_period / options_.gradient_memory);
  const double all = std::pow(each, seconds / step / options_.gradient_period);
  GradientSums& sums = gradient_sums_;
  const auto total_by = [&] { return (sums.sqr + sums.var / scale) / sums.weight; };
  // Estimates are off by less and less, as the averages come nearer.
  const double off =
      sums.weight > 0 ? (current.sqr - sums.sqr / sums.weight) / std::max(total_by(), 1e-300) : 0;
  const auto average = [&](double* sum, double now) { *sum = all * *sum + (1 - all) * now; };
  average(&sums.weight, 1);
  average(&sums.sqr, current.sqr);
  sums.surprise_square = all * (sums.surprise_square + (1 - all) * off * off);
  average(&sums.var, current.var);
  sums.weight_square = all * all * sums.weight_square + (1 - each) * (1 - all * all) / (1 + each);
  const double mean = sums.sqr / sums.weight;
  const double estimates = sums.weight * sums.weight / sums.weight_square;
  const double error =
      total_by() * std::sqrt(sums.surprise_square / sums.weight / std::max(estimates - 1, 0.5));
  gradient_ = {mean + 2 * error, sums.var / sums.weight};
}

absl::Status SimulatedJob::Advance(double until, double speed) {
  const double ready = clock_ + newcomers_left_;
  if (newcomers_left_ > 0 && ready <= until) {
    if (absl::Status status = AdvanceWork(ready, speed); !status.ok()) return status;
    newcomers_left_ = 0;
    if (!done()) Begin(restart_after_);
  }
  newcomers_left_ = std::max(newcomers_left_ - (until - clock_), 0.0);
  return AdvanceWork(until, speed);
}

absl::Status SimulatedJob::AdvanceWork(double until, double speed) {
  double seconds = until - clock_;
  if (!placement_.empty() && !done()) {
    const double delay = std::min(restart_left_, seconds);
    restart_left_ -= delay;
    clock_ += delay;
    seconds -= delay;
    attained_service_ += gpus_ * delay;
    run_seconds_ += delay;
  }
  while (seconds > 0 && !placement_.empty() && !done()) {
    const absl::StatusOr<StepTime> time = TrueStepTime();
    if (!time.ok()) {
      return time.status();
    }
    const double rate = TrueSpeed(*time) * speed;
    const double next = application().curve.ProgressAfter(epoch_);
    const goodput::GradParams gradient = application().curve.Gradient(batch_size(), epoch_);
    if (options_.adaptive) {
      if (absl::Status status = Learn(*time); !status.ok()) {
        return status;
      }
    }
    double elapsed = seconds;
    const double reached = progress_ + rate * seconds;
    if (reached < next && (options_.whole_seconds || (next - progress_) / rate > seconds + kSlack)) {
      WriteCheckpoints(elapsed, rate);
      progress_ = reached;
    } else {
      const double needed = (next - progress_) / rate;
      // Half to even, like Python's round().
      elapsed = options_.whole_seconds ? std::nearbyint(needed) : std::min(needed, seconds);
      WriteCheckpoints(elapsed, std::min(rate, (next - progress_) / std::max(elapsed, kSlack)));
      progress_ = next;
      ++epoch_;
    }
    RememberGradient(gradient, elapsed, *time);
    clock_ += elapsed;
    seconds -= elapsed;
    attained_service_ += gpus_ * elapsed;
    run_seconds_ += elapsed;
    if (epoch_ == application().curve.epochs()) {
      completed_ = clock_;
    } else if (options_.adaptive) {
      ChooseBatch();
    }
  }
  clock_ = until;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<double>> SimulatedJob::NextEvent(double speed, double report_period) const {
  if (placement_.empty() || done()) {
    return std::nullopt;
  }
  const absl::StatusOr<StepTime> time = TrueStepTime();
  if (!time.ok()) {
    return time.status();
  }
  const double rate = TrueSpeed(*time) * speed;
  const double left = (application().curve.ProgressAfter(epoch_) - progress_) / rate;
  // What newcomers bring is reported as soon as that after a restart.
  const double change = newcomers_left_ > 0 ? newcomers_left_ + restart_after_ : left;
  return clock_ + restart_left_ + std::min({left, report_period, change});
}

}  // namespace adaptdl::simulator
