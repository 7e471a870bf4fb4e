#include "simulator/schedulers/optimus.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "simulator/batch_choice.h"
#include "simulator/schedulers/free_nodes.h"

namespace adaptdl::simulator {
namespace {

constexpr int kType = 0;  // the only one

double RemainingIterations(const SimulatedJob& job) {
  const TrainingCurve& curve = job.application().curve;
  const int last = curve.epochs() - 1;
  if (job.epoch() >= last) {
    return 1;
  }
  const int64_t batch = job.spec().batch_size;
  return job.spec().work * (curve.Iterations(batch, last) - curve.Iterations(batch, job.epoch()));
}

int MostReplicas(const SimulatedJob& job) {
  const Application& app = job.application();
  return app.max_replicas == 1 ? 1 : static_cast<int>(job.spec().batch_size / app.min_local[kType]);
}

}  // namespace

absl::StatusOr<double> Optimus::IterationTime(const Cluster& cluster, const SimulatedJob& job, int gpus) {
  std::vector<double>& times = iteration_times_[&job];
  times.resize(std::max<size_t>(times.size(), gpus + 1), std::numeric_limits<double>::quiet_NaN());
  if (!std::isnan(times[gpus])) {
    return times[gpus];
  }
  std::vector<int> shape;
  for (const NodeShare& share : cluster.Pack(kType, gpus)) {
    shape.push_back(share.gpus);
  }
  goodput::BatchConfig batch = SplitBatch(job.spec().batch_size, gpus, job.Bounds(kType));
  if (gpus == 1 && batch.accumulation_steps == 0) {
    // The artifact's oracle lets a single replica always accumulate, even at the initial batch size.
    batch = {(batch.atomic_batch_size + 1) / 2, 1};
  }
  const std::optional<StepTime> time =
      job.application().step_times[kType].Resolve(shape).At(batch.atomic_batch_size);
  if (!time) {
    return absl::FailedPreconditionError(absl::StrCat(job.spec().name, ": the traces do not cover ", gpus,
                                                      " replicas with atomic batch size ",
                                                      batch.atomic_batch_size));
  }
  times[gpus] = time->step + (time->step - time->sync) * static_cast<double>(batch.accumulation_steps);
  return times[gpus];
}

absl::StatusOr<double> Optimus::Gain(const Cluster& cluster, const Candidate& candidate, int gpus_left) {
  if (candidate.gpus + 1 > candidate.most || gpus_left < 1) {
    return 0;
  }
  absl::StatusOr<double> now = IterationTime(cluster, *candidate.job, candidate.gpus);
  absl::StatusOr<double> then = IterationTime(cluster, *candidate.job, candidate.gpus + 1);
  if (!now.ok() || !then.ok()) {
    return now.ok() ? then.status() : now.status();
  }
  return (*now - *then) * candidate.remaining;
}

absl::StatusOr<std::vector<Optimus::Candidate>> Optimus::ShareOut(const Situation& situation) {
  int left = situation.GpusUp();
  std::vector<Candidate> candidates;
  const auto give = [&](Candidate& candidate) {
    ++candidate.gpus;
    absl::StatusOr<double> gain = Gain(situation.cluster, candidate, left - 1);
    candidate.gain = gain.ok() ? *gain : 0;
    return gain.status();
  };
  for (const SimulatedJob* job : situation.jobs) {
    candidates.push_back({job, RemainingIterations(*job), MostReplicas(*job)});
    if (left < 1) {
      continue;
    }
    if (absl::Status status = give(candidates.back()); !status.ok()) {
      return status;
    }
    --left;
  }
  while (left > 0) {
    const auto best =
        std::max_element(candidates.begin(), candidates.end(),
                         [](const Candidate& a, const Candidate& b) { return a.gain < b.gain; });
    if (best->gain <= 0) {
      break;
    }
    // The artifact counts the GPU as taken only after it has looked at the next one.
    ++best->gpus;
    absl::StatusOr<double> gain = Gain(situation.cluster, *best, left);
    if (!gain.ok()) {
      return gain.status();
    }
    best->gain = *gain;
    --left;
  }
  return candidates;
}

absl::StatusOr<std::vector<Placement>> Optimus::Schedule(const Situation& situation) {
  if (absl::Status status = CheckUniform(situation.cluster); !status.ok()) {
    return status;
  }
  absl::StatusOr<std::vector<Candidate>> candidates = ShareOut(situation);
  if (!candidates.ok()) {
    return candidates.status();
  }
  FreeNodes free(situation);
  std::vector<Placement> result(candidates->size());
  std::vector<size_t> order(candidates->size());
  std::iota(order.begin(), order.end(), 0);
  for (const size_t i : order) {
    const Candidate& candidate = (*candidates)[i];
    if (candidate.job->gpus() == candidate.gpus) {
      result[i] = candidate.job->placement();
      free.Take(result[i]);
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return (*candidates)[a].gpus < (*candidates)[b].gpus; });
  for (const size_t i : order) {
    if (result[i].empty()) {
      result[i] = free.TakeFromFreest((*candidates)[i].gpus);
    }
  }
  return result;
}

}  // namespace adaptdl::simulator
