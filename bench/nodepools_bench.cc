// The cost of one decision about all node pools, on one thread: 1,000 jobs, 4 kinds of nodes, 8 pools.
//
//   target: 0 band, 1 budget, 2 deadline, 3 cost
//   floor:  whether what jobs need at least is bought on nodes that last, for which all is traded twice
//
// Pools are a third full, so that some kinds run out and jobs go to others.

#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "libs/nodepools/decision.h"

namespace adaptdl::nodepools {
namespace {

constexpr int kJobs = 1000;
constexpr int kKinds = 4;
constexpr int kMostNodes = 400;
constexpr int kPerNode = 4;
constexpr int kMostReplicas = 64;

scheduling::KindDemand RandomKind(int kind, double exponent, double factor) {
  scheduling::KindDemand demand;
  demand.kind = kind;
  demand.per_node = kPerNode;
  for (int k = 1; k <= kMostReplicas; k += k < kPerNode ? k : kPerNode)
    demand.sizes.push_back({k, factor * std::pow(k, exponent)});
  return demand;
}

ClusterState MakeState() {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(0.4, 0.95);
  std::uniform_real_distribution<double> factor(0.5, 3);
  ClusterState state;
  state.now = absl::UnixEpoch() + absl::Hours(24);
  state.fixed_nodes.assign(kKinds, 0);
  for (int p = 0; p < 2 * kKinds; ++p) {
    Pool pool;
    pool.name = absl::StrCat("pool-", p);
    pool.kind = p / 2;
    pool.preemptible = p % 2 == 1;
    pool.price_per_hour = (1 + pool.kind) * (pool.preemptible ? 0.3 : 1);
    pool.max_nodes = kMostNodes;
    for (int n = 0; n < kMostNodes / 3; ++n) {
      PoolNode node;
      node.id = absl::StrCat(pool.name, "-", 1000 + n);
      node.phase = NodePhase::kRunning;
      node.use = 1;
      pool.nodes.push_back(std::move(node));
    }
    state.pools.push_back(std::move(pool));
  }
  state.jobs.emplace();
  for (int j = 0; j < kJobs; ++j) {
    JobView job;
    job.demand.key = absl::StrCat("job-", j);
    const double scaling = exponent(random);
    for (int k = 0; k < kKinds; ++k) job.demand.kinds.push_back(RandomKind(k, scaling, factor(random)));
    job.demand.remaining_seconds = 1e5 * factor(random);
    job.present_kind = static_cast<int>(random() % kKinds);
    job.present_speedup = 1;
    state.jobs->push_back(std::move(job));
  }
  return state;
}

void BM_Decide(benchmark::State& bench) {
  const ClusterState state = MakeState();
  Target target;
  target.mode = static_cast<TargetMode>(bench.range(0));
  target.floor_on_lasting = bench.range(1) == 1;
  target.budget_per_hour = 500;
  target.goodput_per_price = 0.5;
  target.deadline = state.now + absl::Hours(24);
  for (auto _ : bench) benchmark::DoNotOptimize(DecidePools(target, state));
}
BENCHMARK(BM_Decide)
    ->ArgNames({"target", "floor"})
    ->ArgsProduct({{0, 1, 2, 3}, {0, 1}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace adaptdl::nodepools
