// The cost of gradient statistics on the processor: passes over float32 gradients, against what memory gives.
//
// "bytes_per_second" counts each byte that a pass reads or writes once. Arguments: elements; 2^14 fit the
// first- and second-level cache, 2^26 (256 MiB) no cache. BM_Copy and BM_Read are the yardsticks of passes
// that write and of those that only read.

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "benchmark/benchmark.h"
#include "libs/device/gradient_kernels.h"
#include "libs/elastic/gradients/noise_scale.h"

namespace adaptdl::elastic {
namespace {

using device::AdamPreconditioner;
using device::Preconditioner;
using device::Process;
using device::SquaredNorm;

std::vector<float> Gradient(int64_t size, uint32_t seed) {
  std::minstd_rand random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> gradient(static_cast<size_t>(size));
  for (float& x : gradient) x = uniform(random);
  return gradient;
}

std::vector<float> SecondMoments(int64_t size) {
  std::vector<float> moments = Gradient(size, 3);
  for (float& x : moments) x *= x;
  return moments;
}

// `arrays`: how many times a pass reads or writes as many bytes as the gradient has.
void SetBytes(benchmark::State& state, int arrays) {
  state.SetBytesProcessed(state.iterations() * state.range(0) * arrays * static_cast<int64_t>(sizeof(float)));
}

void BM_Copy(benchmark::State& state) {
  const std::vector<float> from = Gradient(state.range(0), 1);
  std::vector<float> to = from;
  for ([[maybe_unused]] auto iteration : state) {
    std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
    benchmark::ClobberMemory();
  }
  SetBytes(state, 2);
}
BENCHMARK(BM_Copy)->Arg(1 << 14)->Arg(1 << 20)->Arg(1 << 26);

// The cheapest thing that needs every byte.
void BM_Read(benchmark::State& state) {
  const std::vector<float> gradient = Gradient(state.range(0), 1);
  std::vector<uint64_t> words(gradient.size() / 2);
  std::memcpy(words.data(), gradient.data(), words.size() * sizeof(uint64_t));
  for ([[maybe_unused]] auto iteration : state) {
    uint64_t all = 0;
    for (const uint64_t word : words) all |= word;
    benchmark::DoNotOptimize(all);
  }
  SetBytes(state, 1);
}
BENCHMARK(BM_Read)->Arg(1 << 14)->Arg(1 << 20)->Arg(1 << 26);

// The same sum as SquaredNorm, written plainly: one addition after the other.
void BM_PlainSquaredNorm(benchmark::State& state) {
  const std::vector<float> gradient = Gradient(state.range(0), 1);
  for ([[maybe_unused]] auto iteration : state) {
    double sum = 0;
    for (const double x : gradient) sum += x * x;
    benchmark::DoNotOptimize(sum);
  }
  SetBytes(state, 1);
}
BENCHMARK(BM_PlainSquaredNorm)->Arg(1 << 14)->Arg(1 << 20)->Arg(1 << 26);

void BM_SquaredNorm(benchmark::State& state) {
  const std::vector<float> gradient = Gradient(state.range(0), 1);
  for ([[maybe_unused]] auto iteration : state) benchmark::DoNotOptimize(SquaredNorm<float>(gradient));
  SetBytes(state, 1);
}
BENCHMARK(BM_SquaredNorm)->Arg(1 << 14)->Arg(1 << 20)->Arg(1 << 26);

void BM_PreconditionedSquaredNorm(benchmark::State& state) {
  const std::vector<float> gradient = Gradient(state.range(0), 1);
  const std::vector<float> moments = SecondMoments(state.range(0));
  const Preconditioner preconditioner = *AdamPreconditioner(100, .999, 1e-8);
  for ([[maybe_unused]] auto iteration : state)
    benchmark::DoNotOptimize(SquaredNorm<float>(gradient, moments, preconditioner));
  SetBytes(state, 2);
}
BENCHMARK(BM_PreconditionedSquaredNorm)->Arg(1 << 14)->Arg(1 << 20)->Arg(1 << 26);

// Norms and product of two gradients.
void BM_Compare(benchmark::State& state) {
  std::vector<float> gradient = Gradient(state.range(0), 1);
  std::vector<float> previous = Gradient(state.range(0), 2);
  for ([[maybe_unused]] auto iteration : state) {
    benchmark::DoNotOptimize(
        Process<float>({.gradient = absl::MakeSpan(gradient), .previous = absl::MakeSpan(previous)}));
  }
  SetBytes(state, 2);
}
BENCHMARK(BM_Compare)->Arg(1 << 14)->Arg(1 << 20)->Arg(1 << 26);

// Averaging over micro-batches, with the norm. The factor alternates, so that numbers stay as large as they
// are.
void BM_ScaleAndNorm(benchmark::State& state) {
  std::vector<float> gradient = Gradient(state.range(0), 1);
  double factor = .5;
  for ([[maybe_unused]] auto iteration : state) {
    benchmark::DoNotOptimize(Process<float>({.gradient = absl::MakeSpan(gradient), .factor = factor}));
    factor = 1 / factor;
  }
  SetBytes(state, 2);
}
BENCHMARK(BM_ScaleAndNorm)->Arg(1 << 14)->Arg(1 << 20)->Arg(1 << 26);

// All that the differenced estimate needs in a step: scale, compare, keep.
void BM_ScaleCompareKeep(benchmark::State& state) {
  std::vector<float> gradient = Gradient(state.range(0), 1);
  std::vector<float> previous = Gradient(state.range(0), 2);
  double factor = .5;
  for ([[maybe_unused]] auto iteration : state) {
    benchmark::DoNotOptimize(Process<float>({.gradient = absl::MakeSpan(gradient),
                                             .factor = factor,
                                             .previous = absl::MakeSpan(previous),
                                             .keep = true}));
    factor = 1 / factor;
  }
  SetBytes(state, 4);
}
BENCHMARK(BM_ScaleCompareKeep)->Arg(1 << 14)->Arg(1 << 20)->Arg(1 << 26);

// What remains of a step when the norms are there. Argument: parameter groups.
void BM_UpdateNoiseScale(benchmark::State& state) {
  const size_t groups = static_cast<size_t>(state.range(0));
  NoiseScale noise({.groups = groups});
  const std::vector<double> local(groups, 3);
  const std::vector<double> total(groups, 1);
  for ([[maybe_unused]] auto iteration : state) {
    benchmark::DoNotOptimize(noise.Update({.count = 2, .scale = 2, .local_sqr = local, .total_sqr = total}));
  }
}
BENCHMARK(BM_UpdateNoiseScale)->Arg(1)->Arg(16);

}  // namespace
}  // namespace adaptdl::elastic
