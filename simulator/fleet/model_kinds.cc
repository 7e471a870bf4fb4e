#include "simulator/fleet/model_kinds.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/goodput/optimize.h"
#include "simulator/random.h"

namespace adaptdl::simulator {
namespace {

constexpr int kLargestJob = 64;
constexpr double kSpeedSpread = 1.5;
constexpr double kNoiseSpread = 2;

// alpha_c, beta_c, alpha_n, beta_n, alpha_r, beta_r, gamma: exchanges of a few hundred MB over 100 Gbit/s and over NVLink.
constexpr ModelKind kKinds[] = {
    {"image", 0.25, 2.0, {0.020, 0.00045, 0.030, 0.0010, 0.006, 0.0004, 2.0}, 256, 8192, 512, 3000, 30, 1},
    {"detection", 0.12, 4.0, {0.040, 0.02000, 0.040, 0.0015, 0.010, 0.0006, 1.8}, 16, 512, 16, 200, 60, 1},
    {"speech", 0.10, 3.0, {0.050, 0.00800, 0.060, 0.0020, 0.015, 0.0008, 1.6}, 32, 1024, 64, 500, 40, 1},
    {"recommendation",
     0.18,
     0.5,
     {0.004, 0.0000020, 0.010, 0.0003, 0.003, 0.0001, 1.3},
     2048,
     65536,
     32768,
     20000,
     15,
     1},
    {"tuning", 0.28, 1.0, {0.060, 0.02500, 0.080, 0.0020, 0.020, 0.0010, 2.2}, 16, 256, 16, 120, 90, 1},
    {"language", 0.05, 60.0, {0.150, 0.10000, 0.200, 0.0040, 0.040, 0.0015, 3.0}, 128, 4096, 8, 2500, 120, 8},
    {"control",
     0.02,
     8.0,
     {0.010, 0.00002, 0.008, 0.0002, 0.002, 0.0001, 1.2},
     1024,
     16384,
     8192,
     6000,
     20,
     1},
};

// Once more or once less, in logarithms evenly in between.
double Spread(double most, uint64_t seed, const char* what, int64_t number) {
  return std::pow(most, 2 * KeyedUniform(seed, what, static_cast<uint64_t>(number)) - 1);
}

goodput::PerfParams Slowed(goodput::PerfParams perf, double times) {
  for (double* time :
       {&perf.alpha_c, &perf.beta_c, &perf.alpha_n, &perf.beta_n, &perf.alpha_r, &perf.beta_r}) {
    *time *= times;
  }
  return perf;
}

// Scale-invariant steps that one reference GPU does in that time, at its best batch size.
double StepsIn(double seconds, const goodput::GoodputFunction& goodput, const goodput::BatchLimits& limits) {
  const std::optional<goodput::BatchChoice> best = goodput::OptimizeBatchSize(goodput, {1, 1}, limits);
  return seconds * best->goodput / static_cast<double>(goodput.init_batch_size());
}

ReplicaDemand DemandOf(const ModelKind& kind) {
  ReplicaDemand demand{.min_replicas = kind.least_replicas, .max_replicas = kLargestJob};
  for (int size = kind.least_replicas; size <= kLargestJob && kind.least_replicas > 1; size *= 2) {
    demand.allowed_replicas.push_back(size);
  }
  return demand;
}

}  // namespace

absl::Span<const ModelKind> ModelKinds() { return kKinds; }

double GpuSpeed(const std::string& gpu_type) {
  static constexpr std::pair<const char*, double> kSpeeds[] = {
      {"h100", 2.2}, {"a100", 1}, {"l4", 0.4}, {"v100", 0.45}};
  const auto* found = std::find_if(std::begin(kSpeeds), std::end(kSpeeds),
                                   [&](const auto& known) { return known.first == gpu_type; });
  return found == std::end(kSpeeds) ? 1 : found->second;
}

WorkloadJob MakeJob(const Submission& submission, uint64_t seed, const std::vector<std::string>& gpu_types) {
  const ModelKind& kind = kKinds[submission.kind];
  const goodput::PerfParams perf = Slowed(kind.perf, Spread(kSpeedSpread, seed, "speed", submission.number));
  const double noise = kind.noise_scale * Spread(kNoiseSpread, seed, "noise", submission.number);
  const goodput::GradParams gradient{.sqr = 1, .var = noise / static_cast<double>(kind.init_batch_size)};
  const goodput::BatchLimits limits{kind.max_batch_size, 1, kind.max_local, true};
  const double steps = StepsIn(submission.solo_seconds,
                               goodput::GoodputFunction(perf, gradient, kind.init_batch_size), limits);
  Application application{
      .name = kind.name,
      .curve = TrainingCurve::Constant(gradient, kind.init_batch_size, kind.max_batch_size, steps)};
  for (const std::string& type : gpu_types) {
    application.step_times.push_back(
        StepTimes::FromModel(*goodput::ScaleToGpuType(perf, GpuSpeed(type)), 1, kind.max_local));
    application.min_local.push_back(1);
    application.max_local.push_back(kind.max_local);
  }
  application.restart_seconds = kind.restart_seconds;
  application.max_replicas = kLargestJob;
  WorkloadJob job{absl::StrCat(kind.name, "-", submission.number), submission.time,
                  std::make_shared<const Application>(std::move(application)), kind.least_replicas,
                  kind.init_batch_size};
  job.demand = DemandOf(kind);
  job.demand.name_space = absl::StrCat("tenant-", submission.tenant);
  return job;
}

}  // namespace adaptdl::simulator
