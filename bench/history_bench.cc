// What it costs to keep the histories of jobs, and to read them: without gRPC, on one thread, with virtual time.
//
//   cmake --build --preset release --target history_bench
//   build/release/bench/history_bench [--jobs 1000] [--metrics 2] [--minutes 60] [--folder DIR]
//
// Each job runs all the time, and reports its progress every two seconds. Printed: the processor's time for each minute
// of the jobs, in the thread that hears of progress and in the one that writes, memory and disk at the end, and the time
// of a read of all timelines and of one job's history.

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "libs/base/clock.h"
#include "libs/base/manual_clock.h"
#include "libs/base/random_id.h"
#include "services/supervisor/cluster.h"
#include "services/supervisor/history/history_service.h"
#include "services/supervisor/history/recorder.h"
#include "services/supervisor/nodes/worker_launcher.h"
#include "services/supervisor/store/convert.h"
#include "services/supervisor/store/memory_job_store.h"

namespace adaptdl::supervisor {
namespace {

struct Flags {
  int jobs = 1000;
  int metrics = 2;
  int minutes = 60;
  std::string folder;
};

[[noreturn]] void Die(const absl::Status& status) {
  std::fprintf(stderr, "history_bench: %s\n", status.ToString().c_str());
  std::exit(1);
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double ResidentMib() {
  long pages = 0;
  long resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return static_cast<double>(resident) * 4096 / (1 << 20);
}

// One that runs with one replica.
void AddJob(int number, WriteBatch* batch) {
  auto job = std::make_shared<v1::Job>();
  job->set_namespace_("default");
  job->set_name(absl::StrCat("job-", number));
  job->set_uid(absl::StrCat("uid-", number));
  JobRecord record;
  record.sequence = number + 1;
  record.state = NewState(*job);
  record.state.phase = jobs::Phase::kRunning;
  record.state.group = record.state.last_group = 1;
  record.state.allocation = {"n1"};
  record.job = job;
  record.decision.nodes = {"n1"};
  ReplicaRecord replica;
  replica.job_uid = job->uid();
  replica.launch_group = 1;
  replica.replica.set_replica_id(absl::StrCat(job->name(), "-1-0"));
  replica.replica.set_group(1);
  replica.replica.set_node_id("n1");
  replica.replica.set_state(v1::REPLICA_STATE_RUNNING);
  batch->put_jobs.push_back(std::move(record));
  batch->put_replicas.push_back(std::move(replica));
}

std::unique_ptr<Cluster> MakeCluster(const Flags& flags, const CoreParts& core, WorkerLauncher* launcher,
                                     ReplicaSessions* sessions) {
  WriteBatch batch;
  NodeRecord& node = batch.put_nodes.emplace_back();
  node.node.set_node_id("n1");
  node.node.mutable_status()->set_phase(v1::NODE_PHASE_READY);
  for (int i = 0; i < flags.jobs; ++i) AddJob(i, &batch);
  if (const absl::Status status = core.store->Commit(batch); !status.ok()) Die(status);
  auto cluster = Cluster::Create({}, {core, launcher, sessions, [](int bytes) { return RandomHex(bytes); }});
  if (!cluster.ok()) Die(cluster.status());
  return *std::move(cluster);
}

std::map<std::string, v1::TrainingProgress> ProgressAt(const Flags& flags, int second) {
  std::map<std::string, v1::TrainingProgress> all;
  for (int i = 0; i < flags.jobs; ++i) {
    v1::TrainingProgress& progress = all[absl::StrCat("uid-", i)];
    progress.set_optimizer_steps(second);
    progress.set_throughput(1000 + second % 10);
    progress.set_efficiency(0.9);
    progress.set_total_batch_size(512);
    progress.set_local_batch_size(128);
    progress.set_gradient_noise_scale(1e4);
    progress.set_learning_rate_factor(1.7);
    progress.set_scale_invariant_steps(second * 1.5);
    progress.mutable_step_times()->set_compute(0.1);
    for (int m = 0; m < flags.metrics; ++m) {
      v1::ReportedMetric* metric = progress.add_metrics();
      metric->set_name(absl::StrCat("metric-", m));
      metric->set_value(1.0 / (second + 1));
      metric->set_step(second);
    }
  }
  return all;
}

template <typename Body>
double Timed(const Body& body) {
  const double begin = CpuSeconds();
  body();
  return CpuSeconds() - begin;
}

void ReadAll(const Core& core, const Recorder& recorder) {
  v1::ListTimelinesRequest request;
  request.set_page_size(1000);
  const absl::Time begin = SteadyNow();
  const auto timelines = ListTimelines(core.index(), recorder, request);
  if (!timelines.ok()) Die(timelines.status());
  std::printf("timelines of %d jobs: %.2f ms\n", timelines->timelines_size(),
              absl::ToDoubleMilliseconds(SteadyNow() - begin));
  v1::GetJobHistoryRequest one;
  one.set_name("job-0");
  const absl::Time middle = SteadyNow();
  const auto history = GetJobHistory(core.index(), recorder, one);
  if (!history.ok()) Die(history.status());
  std::printf("history of a job, %d points: %.2f ms, %.1f KiB\n", history->points_size(),
              absl::ToDoubleMilliseconds(SteadyNow() - middle),
              static_cast<double>(history->ByteSizeLong()) / 1024);
}

void Run(const Flags& flags) {
  ManualClock clock;
  MemoryJobStore store;
  ChangeHub hub;
  Invariants invariants;
  GroupCommit durability(nullptr, [](const absl::Status&) {});
  WorkerLauncher launcher;
  ReplicaSessions sessions;
  const CoreParts core{&store, &hub, &durability, &invariants, &clock, nullptr};
  const std::unique_ptr<Cluster> cluster = MakeCluster(flags, core, &launcher, &sessions);
  HistoryOptions options;
  options.folder = flags.folder == "none" ? "" : flags.folder;
  const double before = ResidentMib();
  Recorder recorder(options, cluster->core());
  double hears = 0;
  double writes = 0;
  for (int second = 0; second < flags.minutes * 60; ++second) {
    if (second % 2 == 0) {
      const auto progress = ProgressAt(flags, second);
      hears += Timed([&] { recorder.Observe(progress); });
    }
    clock.Advance(absl::Seconds(1));
    hears += Timed([&] { recorder.Step(); });
    if (second % 10 == 9) writes += Timed([&] { recorder.Flush(); });
  }
  std::printf("%d jobs for %d minutes; of each minute: hearing %.1f ms, writing %.1f ms of CPU\n", flags.jobs,
              flags.minutes, 1e3 * hears / flags.minutes, 1e3 * writes / flags.minutes);
  std::printf("memory: %.1f MiB more than before\n", ResidentMib() - before);
  if (!options.folder.empty()) {
    std::printf(
        "disk: %.1f MiB\n",
        static_cast<double>(std::filesystem::file_size(options.folder + "/history.sqlite")) / (1 << 20));
  }
  ReadAll(*cluster->core(), recorder);
}

}  // namespace
}  // namespace adaptdl::supervisor

int main(int argc, char** argv) {
  CLI::App app{"What it costs to keep the histories of jobs"};
  adaptdl::supervisor::Flags flags;
  flags.folder = absl::StrCat("/tmp/history-bench-", adaptdl::RandomHex(4));
  app.add_option("--jobs", flags.jobs)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--metrics", flags.metrics, "That each job reports")->check(CLI::Range(0, 16));
  app.add_option("--minutes", flags.minutes, "Of the jobs")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--folder", flags.folder, "Where histories are kept; \"none\": in memory");
  CLI11_PARSE(app, argc, argv);
  adaptdl::supervisor::Run(flags);
  return 0;
}
