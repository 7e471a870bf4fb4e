// The cost of the goodput model's three services: one batch-size search, one job's speed-up table, one fit.

#include <cmath>
#include <random>
#include <vector>

#include "benchmark/benchmark.h"
#include "libs/goodput/fit.h"
#include "libs/goodput/model.h"
#include "libs/goodput/optimize.h"
#include "libs/goodput/speedup_table.h"

namespace adaptdl::goodput {
namespace {

const PerfParams kPerf = {.121, .00568, .0236, .00634, .0118, .00317, 1.14};
const GradParams kGrad = {.00136, .000502};

// One search. Argument: whether gradients may be accumulated.
void BM_OptimizeBatchSize(benchmark::State& state) {
  const GoodputFunction goodput(kPerf, kGrad, 128);
  const BatchLimits limits = {
      .max_batch_size = 12800, .min_local = 16, .max_local = 256, .accumulation = state.range(0) == 1};
  for (auto _ : state) benchmark::DoNotOptimize(OptimizeBatchSize(goodput, {2, 8}, limits));
}
BENCHMARK(BM_OptimizeBatchSize)->Arg(0)->Arg(1);

void BM_OptimizeOnReferenceGrid(benchmark::State& state) {
  const GoodputFunction goodput(kPerf, kGrad, 128);
  const BatchLimits limits = {.max_batch_size = 12800, .min_local = 16, .max_local = 256};
  for (auto _ : state) benchmark::DoNotOptimize(OptimizeOnReferenceGrid(goodput, {2, 8}, limits));
}
BENCHMARK(BM_OptimizeOnReferenceGrid);

// One job's whole table, for an adaptive batch. Argument: replicas.
void BM_SpeedupTable(benchmark::State& state) {
  const GoodputFunction goodput(kPerf, kGrad, 128);
  const BatchLimits limits = {.max_batch_size = 12800, .min_local = 16, .max_local = 256};
  for (auto _ : state) {
    benchmark::DoNotOptimize(SpeedupTable::Build(goodput, limits, static_cast<int>(state.range(0))));
  }
}
BENCHMARK(BM_SpeedupTable)->Arg(8)->Arg(64)->Arg(512);

// The same with accumulation, under micro-steps so small that it is worth while.
void BM_SpeedupTableAccumulation(benchmark::State& state) {
  const GoodputFunction goodput(kPerf, kGrad, 128);
  const BatchLimits limits = {.max_batch_size = 12800, .min_local = 4, .max_local = 32, .accumulation = true};
  for (auto _ : state) {
    benchmark::DoNotOptimize(SpeedupTable::Build(goodput, limits, static_cast<int>(state.range(0))));
  }
}
BENCHMARK(BM_SpeedupTableAccumulation)->Arg(64);

// The same for a job that keeps its batch.
void BM_SpeedupTableFixedBatch(benchmark::State& state) {
  const GoodputFunction goodput(kPerf, kGrad, 4096);
  for (auto _ : state) {
    benchmark::DoNotOptimize(SpeedupTable::Build(goodput, {}, static_cast<int>(state.range(0))));
  }
}
BENCHMARK(BM_SpeedupTableFixedBatch)->Arg(64);

// One fit of noisy measurements. Argument: how many; 540 and 1660 are the sizes of published profiles, which
// the reference's optimiser needs 0.8 to 4.5 s of CPU for.
void BM_FitPerfParams(benchmark::State& state) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0, 0.05);
  std::vector<Measurement> measurements;
  for (int i = 0; i < state.range(0); ++i) {
    const int replicas = 1 << (i % 7);
    const Topology topology = {(replicas + 3) / 4, replicas};
    const int64_t size = 16 + 4 * (i / 7);
    measurements.push_back({topology.nodes, replicas, size,
                            AccumTime(kPerf, static_cast<double>(size)) * std::exp(noise(random)),
                            OptimTime(kPerf, topology, static_cast<double>(size)) * std::exp(noise(random))});
  }
  for (auto _ : state) benchmark::DoNotOptimize(FitPerfParams(measurements));
}
BENCHMARK(BM_FitPerfParams)->Arg(20)->Arg(540)->Arg(1660)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace adaptdl::goodput
