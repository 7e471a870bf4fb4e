// The cost of one decision of the published policies, speed-up tables given; the second of two, so that the
// genetic searches start from a population. Peers' own numbers for the same sizes are seconds.
//
// <policy>/jobs:J/nodes:N: nodes of 4 GPUs each, one GPU per replica.

#include <memory>
#include <random>
#include <string>

#include "benchmark/benchmark.h"
#include "libs/goodput/model.h"
#include "libs/goodput/speedup_table.h"
#include "simulator/policies/pollux/pollux_policy.h"
#include "simulator/policies/sia/sia_policy.h"

namespace adaptdl::simulator {
namespace {

using scheduling::AllocationPolicy;
using scheduling::ClusterView;
using scheduling::Decision;
using scheduling::JobInfo;
using scheduling::kGpu;
using scheduling::NodeInfo;

ClusterView MakeView(int jobs, int nodes) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> network(0.005, 0.3);
  ClusterView view;
  view.now = absl::UnixEpoch() + absl::Hours(1);
  for (int n = 0; n < nodes; ++n) {
    NodeInfo node;
    node.id = "node-" + std::to_string(10000 + n);
    node.capacity = {{kGpu, 4}};
    view.nodes.push_back(node);
  }
  for (int j = 0; j < jobs; ++j) {
    const double within = network(random);
    const goodput::PerfParams perf = {0.02, 1e-3, within * 2, within / 50, within, within / 100, 1.5};
    JobInfo job;
    job.key = "bench/job-" + std::to_string(j);
    job.created = absl::UnixEpoch() + absl::Seconds(j);
    job.request = {{kGpu, 1}};
    job.max_replicas = 64;
    job.speedup = std::make_shared<goodput::SpeedupTable>(goodput::SpeedupTable::Build(
        goodput::GoodputFunction(perf, {0.001, 1}, 256), {.max_batch_size = 8192, .max_local = 512}, 64));
    view.jobs.push_back(job);
  }
  return view;
}

void Decide(benchmark::State& state, const AllocationPolicy& policy) {
  ClusterView view = MakeView(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  const Decision first = policy.Decide(view, 1);
  for (size_t j = 0; j < view.jobs.size(); ++j) view.jobs[j].allocation = first.jobs[j].allocation;
  double value = 0;
  for (auto _ : state) {
    const Decision decision = policy.Decide(view, 1);
    value = decision.value;
    benchmark::DoNotOptimize(decision);
  }
  state.counters["value"] = value;
}

void Pollux(benchmark::State& state) { Decide(state, pollux::PolluxPolicy({})); }
void PolluxMaster(benchmark::State& state) {
  Decide(state, pollux::PolluxPolicy({.search = {.variant = pollux::Variant::kMaster}}));
}
void Sia(benchmark::State& state) { Decide(state, sia::SiaPolicy({})); }

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"jobs", "nodes"})->Args({16, 4})->Args({40, 16})->Args({160, 16})->Args({160, 64});
  benchmark->Unit(benchmark::kMillisecond);
}
BENCHMARK(Pollux)->Name("pollux")->Apply(Sizes);
BENCHMARK(PolluxMaster)->Name("pollux-master")->Apply(Sizes);
BENCHMARK(Sia)->Name("sia")->Apply(Sizes);

}  // namespace
}  // namespace adaptdl::simulator
