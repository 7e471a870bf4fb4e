// What it costs a step to be measured and to report: the loop of a job of one replica without a model, so that nothing
// else is there to hide it.
//
//   build/release/bench/report_bench
//
// loop: what a step of a loader's loop takes by itself, all of it the library's. The others do the same, and beside that
// say when samples were there (read), report one number in each step, or sixteen. report: one call of Report() alone, for
// a job that reports one number or, if it is the last of them, sixteen.

#include <cstdint>
#include <string>
#include <vector>

#include "adaptdl/data_loader.h"
#include "adaptdl/job.h"
#include "benchmark/benchmark.h"
#include "libs/elastic/job/job_core.h"

namespace adaptdl::bench {
namespace {

Job& TheJob() {
  static Job* const job = Init().release();
  return *job;
}

std::vector<std::string> Names(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back("train/metric_" + std::to_string(i));
  return names;
}

void Report(benchmark::State& state) {
  Job& job = TheJob();
  const std::vector<std::string> names = Names(state.range(0));
  for (const std::string& name : names) job.Report(name, 1);
  double value = 0;
  for ([[maybe_unused]] auto iteration : state) job.Report(names.back(), value += 0.5);
}
BENCHMARK(Report)->Name("report")->Arg(1)->Arg(16);

void Loop(benchmark::State& state, bool reads, int64_t reports) {
  Job& job = TheJob();
  elastic::JobCore& core = job.core();
  const std::vector<std::string> names = Names(reports);
  // More than it will be asked for.
  AdaptiveDataLoader loader(job, int64_t{1} << 40, {.batch_size = 1, .shuffle = false});
  loader.BeginLoop();
  double value = 0;
  for ([[maybe_unused]] auto iteration : state) {
    loader.Next();
    if (reads) loader.MarkRead();
    core.loop().OnOptimizerStep(0);
    for (const std::string& name : names) job.Report(name, value += 0.5);
  }
}
BENCHMARK_CAPTURE(Loop, plain, false, 0)->Name("loop");
BENCHMARK_CAPTURE(Loop, read, true, 0)->Name("loop/read");
BENCHMARK_CAPTURE(Loop, one, true, 1)->Name("loop/read/reports:1");
BENCHMARK_CAPTURE(Loop, all, true, 16)->Name("loop/read/reports:16");

}  // namespace
}  // namespace adaptdl::bench
