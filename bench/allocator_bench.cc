// The cost of one decision of the goodput policy, on one thread, on nodes of 4 GPUs, of one type or of several.
//
//   cold:  nobody holds anything yet
//   warm:  the last decision was carried out, and one job has learnt that it scales differently
//   hints: the same, and 5 % of the jobs sent new parameters: their speed-up tables are made anew, too
//   curve: the answer to what other numbers of nodes would bring, which the allocator service asks for on top
//
// Except in "hints", speed-ups that a decision asks for are known, but for those of the job that has changed. The counters are what the decision is worth to the policy, as
// a part of the bound that it knows, and the part that placement lost.

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "libs/goodput/model.h"
#include "libs/goodput/speedup_table.h"
#include "libs/scheduling/goodput/cluster_model.h"
#include "libs/scheduling/goodput/cluster_size.h"
#include "libs/scheduling/goodput/goodput_policy.h"
#include "libs/scheduling/policy.h"

namespace adaptdl::scheduling {
namespace {

constexpr int kGpusPerNode = 4;
constexpr int kTableSize = 64;

std::string TypeName(int type) { return absl::StrCat("type-", type); }

// Speed-ups that nobody has known before, on GPUs of each type; the next type computes 1.7 times as fast, over the same
// network.
void MeasureAnew(int types, std::mt19937_64* random, JobInfo* job) {
  std::uniform_real_distribution<double> network(0.005, 0.3);
  const double within = network(*random);
  std::optional<double> base;
  double factor = 1;
  for (int type = 0; type < types; ++type, factor /= 1.7) {
    const goodput::PerfParams perf = {0.02 * factor, 1e-3 * factor, within * 2, within / 50,
                                      within,        within / 100,  1.5};
    auto table = std::make_shared<goodput::SpeedupTable>(
        goodput::SpeedupTable::Build(goodput::GoodputFunction(perf, {0.001, 1}, 256),
                                     {.max_batch_size = 32768, .max_local = 512}, kTableSize, base));
    base = table->base_goodput();
    if (type == 0) job->speedup = table;
    if (types > 1) job->speedup_by_type[TypeName(type)] = table;
  }
}

ClusterView MakeView(int jobs, int gpus, int types) {
  std::mt19937_64 random(1);
  ClusterView view;
  view.now = absl::UnixEpoch() + absl::Hours(24);
  view.capacity_curve = false;
  for (int n = 0; n < gpus / kGpusPerNode; ++n) {
    NodeInfo node;
    node.id = absl::StrCat("node-", 10000 + n);
    node.capacity = {{kGpu, kGpusPerNode}, {kCpu, 32000}};
    node.gpu_type = TypeName(n % types);
    view.nodes.push_back(node);
  }
  for (int j = 0; j < jobs; ++j) {
    JobInfo job;
    job.key = absl::StrCat("bench/job-", j);
    job.request = {{kGpu, 1}, {kCpu, 4000}};
    job.max_replicas = 1 << (random() % 7);
    MeasureAnew(types, &random, &job);
    job.created = view.now - absl::Seconds(random() % 80000);
    job.done_seconds = static_cast<double>(random() % 100000);
    job.remaining_seconds = static_cast<double>(100 + random() % 100000);
    job.attained_service = *job.done_seconds;
    view.jobs.push_back(job);
  }
  return view;
}

enum class Start { kCold, kWarm, kHints };

void Decide(benchmark::State& state, Start start) {
  const GoodputPolicy policy({});
  const int jobs = static_cast<int>(state.range(0));
  const int types = static_cast<int>(state.range(2));
  ClusterView view = MakeView(jobs, static_cast<int>(state.range(1)), types);
  std::mt19937_64 random(2);
  if (start != Start::kCold) {
    const Decision decision = policy.Decide(view, 1);
    for (int j = 0; j < jobs; ++j) view.jobs[j].allocation = decision.jobs[j].allocation;
    MeasureAnew(types, &random, &view.jobs[0]);
  }
  // What is known of the jobs is known from then on.
  DecisionQuality quality = policy.Decide(view, 1).quality;
  for (auto _ : state) {
    for (int j = 0; j < jobs && start == Start::kHints; j += 20) MeasureAnew(types, &random, &view.jobs[j]);
    const Decision decision = policy.Decide(view, 1);
    quality = decision.quality;
    benchmark::DoNotOptimize(decision);
  }
  state.counters["of_bound"] = quality.objective / quality.bound;
  state.counters["lost_in_placement"] = quality.placement_loss / quality.objective;
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"jobs", "gpus", "types"})
      ->Args({16, 64, 1})
      ->Args({160, 64, 1})
      ->Args({160, 256, 1})
      ->Args({1000, 2048, 1})
      ->Args({5000, 10000, 1})
      ->Args({1000, 2048, 4})
      ->Args({5000, 10000, 4})
      ->Args({20000, 50000, 4})
      ->Unit(benchmark::kMillisecond);
}
// What other numbers of nodes would bring.
void Curve(benchmark::State& state) {
  const ClusterView view = MakeView(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)),
                                    static_cast<int>(state.range(2)));
  const ClusterModel model(view);
  const std::vector<Placement> placements(view.jobs.size());
  for (auto _ : state) {
    CapacityDecision decision;
    decision.desired_nodes = model.node_count();
    AddCapacityCurve(model, placements, {}, &decision);
    benchmark::DoNotOptimize(decision);
  }
}

BENCHMARK(Curve)->Name("curve")->Apply(Sizes);
BENCHMARK_CAPTURE(Decide, cold, Start::kCold)->Name("decide/cold")->Apply(Sizes);
BENCHMARK_CAPTURE(Decide, warm, Start::kWarm)->Name("decide/warm")->Apply(Sizes);
BENCHMARK_CAPTURE(Decide, hints, Start::kHints)->Name("decide/hints")->Apply(Sizes);

}  // namespace
}  // namespace adaptdl::scheduling
