// The cost of one decision, speed-up tables given. "cold": nobody holds anything yet; "warm": the decision
// was carried out, and one job has learnt that it scales worse.
//
// decide/jobs:J/nodes:N: nodes of 4 GPUs each.

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "libs/goodput/model.h"
#include "libs/goodput/speedup_table.h"
#include "libs/scheduling/greedy_policy.h"
#include "libs/scheduling/policy.h"

namespace adaptdl::scheduling {
namespace {

std::shared_ptr<const goodput::SpeedupTable> RandomTable(std::mt19937_64* random, int most) {
  std::uniform_real_distribution<double> network(0.005, 0.3);
  const double within = network(*random);
  const goodput::PerfParams perf = {0.02, 1e-3, within * 2, within / 50, within, within / 100, 1.5};
  return std::make_shared<goodput::SpeedupTable>(goodput::SpeedupTable::Build(
      goodput::GoodputFunction(perf, {0.001, 1}, 256), {.max_batch_size = 8192, .max_local = 512}, most));
}

ClusterView MakeView(int jobs, int nodes) {
  std::mt19937_64 random(1);
  ClusterView view;
  for (int n = 0; n < nodes; ++n) {
    NodeInfo node;
    node.id = "node-" + std::to_string(10000 + n);
    node.capacity = {{kGpu, 4}, {kCpu, 32000}};
    view.nodes.push_back(node);
  }
  for (int j = 0; j < jobs; ++j) {
    JobInfo job;
    job.key = "bench/job-" + std::to_string(j);
    job.request = {{kGpu, 1}, {kCpu, 4000}};
    job.max_replicas = 1 << (random() % 6);
    job.speedup = RandomTable(&random, job.max_replicas);
    view.jobs.push_back(job);
  }
  return view;
}

void Decide(benchmark::State& state, bool warm) {
  const GreedyPolicy policy({});
  ClusterView view = MakeView(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  if (warm) {
    const Decision decision = policy.Decide(view, 1);
    for (size_t j = 0; j < view.jobs.size(); ++j) view.jobs[j].allocation = decision.jobs[j].allocation;
    std::mt19937_64 random(2);
    view.jobs[0].speedup = RandomTable(&random, view.jobs[0].max_replicas);
  }
  double value = 0;
  for (auto _ : state) {
    const Decision decision = policy.Decide(view, 1);
    value = decision.value;
    benchmark::DoNotOptimize(decision);
  }
  state.counters["value"] = value;
}

void Cold(benchmark::State& state) { Decide(state, false); }
void Warm(benchmark::State& state) { Decide(state, true); }

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"jobs", "nodes"})->Args({16, 16})->Args({64, 32})->Args({160, 64})->Args({1000, 512});
  benchmark->Unit(benchmark::kMillisecond);
}
BENCHMARK(Cold)->Name("decide/cold")->Apply(Sizes);
BENCHMARK(Warm)->Name("decide/warm")->Apply(Sizes);

}  // namespace
}  // namespace adaptdl::scheduling
