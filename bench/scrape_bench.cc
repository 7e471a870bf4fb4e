// What a scrape of the series of jobs costs: their page as text, of jobs that train and whose models all differ.
//
//   cmake --build --preset release --target scrape_bench
//   build/release/bench/scrape_bench
//
// Goal: 20 ms of the processor for 1,000 jobs.

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/load/played_training.h"
#include "benchmark/benchmark.h"
#include "services/supervisor/web/job_series.h"

namespace adaptdl::supervisor {
namespace {

const Moment kNow = {absl::FromUnixSeconds(1000), absl::FromUnixSeconds(5000)};

std::shared_ptr<JobEntry> Training(int i) {
  auto entry = std::make_shared<JobEntry>();
  v1::Job job;
  job.set_namespace_("research");
  job.set_name(absl::StrCat("language-model-", i));
  job.set_uid(absl::StrCat("uid-", i));
  entry->record.job = std::make_shared<const v1::Job>(job);
  entry->record.state.phase = jobs::Phase::kRunning;
  entry->record.state.allocation = {"node-1", "node-1", "node-2", "node-3"};
  entry->record.decision.nodes = entry->record.state.allocation;
  v1::TrainingProgress& progress = entry->record.progress.emplace();
  progress.set_optimizer_steps(1234567 + i);
  progress.set_fraction(0.25);
  progress.set_total_batch_size(1024);
  progress.set_local_batch_size(256);
  progress.set_learning_rate_factor(2.5);
  progress.set_throughput(512.25 + i);
  progress.set_efficiency(0.75);
  progress.set_gradient_noise_scale(1500.5);
  progress.mutable_step_times()->set_compute(0.125);
  for (const char* const name : {"loss", "valid/loss", "valid/accuracy"}) {
    v1::ReportedMetric* const metric = progress.add_metrics();
    metric->set_name(name);
    metric->set_value(1.0 / (i + 3));
  }
  entry->record.hints = load::PlayedHints(job.name());
  return entry;
}

void Scrape(benchmark::State& state) {
  std::vector<std::shared_ptr<JobEntry>> jobs;
  for (int i = 0; i < state.range(0); ++i) jobs.push_back(Training(i));
  size_t bytes = 0;
  for (auto _ : state) {
    JobSeries series(jobs.size());
    for (const auto& job : jobs) series.Add(*job, std::nullopt, kNow);
    bytes = series.Text().size();
  }
  state.counters["bytes"] = static_cast<double>(bytes);
}
BENCHMARK(Scrape)->Arg(1000)->Arg(10000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace adaptdl::supervisor
