// Time from a submit to the job's first optimiser step, on a running cluster of the real programs: the path
// through supervisor, allocator and worker, the start of the process with LibTorch, rendezvous, data and the
// first batch. The second figure is the part that is ours: from the submit until the training process has
// started. Steps are seen through the replica's heartbeats: the first figure is up to one heartbeat of the
// test cluster, 0.3 s, too long.
//
//   build/release/bench/first_step_bench

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "tests/integration/test_cluster.h"

namespace adaptdl {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(2);

absl::Time StartOfFirstReplica(const v1::Job& job) {
  const google::protobuf::Timestamp& time = job.status().replicas(0).start_time();
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

void SubmitToFirstStep(benchmark::State& state) {
  integration::TestCluster cluster({.workers = 1});
  if (const absl::Status status = cluster.Start(); !status.ok()) {
    state.SkipWithError(status.ToString().c_str());
    return;
  }
  int runs = 0;
  double launch_seconds = 0;
  for ([[maybe_unused]] auto iteration : state) {
    const std::string name = absl::StrCat("first-", runs);
    v1::Job job = cluster.MnistJob(name, {"--epochs", "1", "--samples", "8000"});
    const absl::Time begin = absl::Now();
    auto result = cluster.Submit(job);
    if (result.ok()) result = cluster.WaitForJob(name, integration::StepsReached(1), kPatience);
    const absl::Time end = absl::Now();
    if (!result.ok() || result->status().replicas().empty()) {
      state.SkipWithError(result.status().ToString().c_str());
      return;
    }
    state.SetIterationTime(absl::ToDoubleSeconds(end - begin));
    launch_seconds += absl::ToDoubleSeconds(StartOfFirstReplica(*result) - begin);
    ++runs;
    if (!cluster.WaitForJob(name, integration::Finished, kPatience).ok()) {
      state.SkipWithError("the job did not finish");
      return;
    }
  }
  state.counters["submit_to_process_s"] = launch_seconds / runs;
}

BENCHMARK(SubmitToFirstStep)->UseManualTime()->Iterations(3)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace adaptdl

BENCHMARK_MAIN();
