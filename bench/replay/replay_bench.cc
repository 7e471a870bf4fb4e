// The live system judged by its simulator: runs a workload, compressed in time, through the real supervisor, allocator,
// workers and training library, then the same through adaptdl-sim's engine, and compares.
//
//   replay_bench measure --workload workload-1.csv --traces pollux --jobs 40 --overheads overheads.json
//   replay_bench compare --workload workload-6.csv --traces pollux --overheads overheads.json --output run.json
//   replay_bench compare ... --static
//
// `measure` records what starts and changes of replicas take, until the last job was submitted; `compare` feeds the simulator with these, so they must come
// from another workload. How far the cluster's processes are from having a machine to themselves is said by the
// part of processor time that was idle: a machine that is busy judges itself, not the system. See --help.

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "bench/replay/comparison.h"
#include "bench/replay/live_run.h"
#include "libs/base/clock.h"
#include "nlohmann/json.hpp"
#include "simulator/engine.h"
#include "simulator/report/summary.h"
#include "simulator/restart_times.h"
#include "simulator/schedulers/factory.h"
#include "simulator/traces/workload.h"

namespace adaptdl::replay {
namespace {

// The training library averages gradient statistics over about so many batches of the initial size.
constexpr double kGradientMemory = 1000;

struct Options {
  std::string workload;
  LiveOptions live;
  // The first so many jobs. 0: all.
  size_t jobs = 0;
  // Of each so many jobs the first one.
  size_t every = 1;
  std::string overheads;
  std::string output;
};

absl::StatusOr<std::vector<simulator::WorkloadJob>> LoadJobs(const Options& options) {
  absl::StatusOr<std::vector<simulator::WorkloadJob>> all = simulator::LoadWorkload(
      {.path = options.workload, .trace_folders = options.live.traces, .gpu_types = {"aws"}});
  if (!all.ok()) return all.status();
  std::vector<simulator::WorkloadJob> chosen;
  for (size_t i = 0; i < all->size(); i += options.every) {
    if (options.jobs == 0 || chosen.size() < options.jobs) chosen.push_back((*all)[i]);
  }
  if (chosen.empty()) return absl::InvalidArgumentError("--workload has no jobs");
  const double begin = chosen.front().submitted;
  const int slots = options.live.nodes * options.live.slots_per_node;
  for (simulator::WorkloadJob& job : chosen) {
    job.submitted -= begin;
    job.replicas = std::min(job.replicas, slots);
  }
  return chosen;
}

double MeanOf(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Busy and all processor time of the machine since it started, in ticks.
struct ProcessorTime {
  double busy = 0;
  double all = 0;
};

ProcessorTime ReadProcessorTime() {
  std::ifstream file("/proc/stat");
  std::string word;
  file >> word;
  ProcessorTime time;
  for (int i = 0; i < 8; ++i) {
    double ticks = 0;
    file >> ticks;
    time.all += ticks;
    // Not: what gives way to all others, idle, and waiting for disks.
    if (i != 1 && i != 3 && i != 4) time.busy += ticks;
  }
  return time;
}

absl::StatusOr<LiveRun> RunAndTell(const std::vector<simulator::WorkloadJob>& jobs,
                                   const LiveOptions& options) {
  const ProcessorTime before = ReadProcessorTime();
  absl::StatusOr<LiveRun> run = RunLive(jobs, options);
  if (!run.ok()) return run;
  const ProcessorTime after = ReadProcessorTime();
  std::cout << absl::StrCat(
      "processors busy: ", static_cast<int>(100 * (after.busy - before.busy) / (after.all - before.all)),
      " %; starts ", run->start_seconds.size(), ", mean ", MeanOf(run->start_seconds),
      " s; changes in place ", run->in_place_seconds.size(), ", mean ", MeanOf(run->in_place_seconds),
      " s, newcomers ", MeanOf(run->newcomer_seconds), " s (by the clock)\n");
  return run;
}

absl::Status Write(const std::string& path, const nlohmann::json& json) {
  std::ofstream file(path);
  file << json.dump(1) << '\n';
  file.flush();
  return file.good() ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("can't write ", path));
}

absl::Status Measure(const Options& options) {
  const auto jobs = LoadJobs(options);
  if (!jobs.ok()) return jobs.status();
  LiveOptions live = options.live;
  live.to_the_end = false;
  const absl::StatusOr<LiveRun> run = RunAndTell(*jobs, live);
  if (!run.ok()) return run.status();
  return Write(options.overheads, {{"start_s", run->start_seconds},
                                   {"in_place_s", run->in_place_seconds},
                                   {"newcomers_s", run->newcomer_seconds},
                                   {"source", options.workload}});
}

// Recorded times, in seconds by the clock.
absl::StatusOr<std::shared_ptr<const simulator::RestartTimes>> TimesOf(const nlohmann::json& file,
                                                                       const std::string& name) {
  absl::StatusOr<simulator::RestartTimes> times = simulator::RestartTimes::Parse(
      nlohmann::json{{"pause_s", file.value(name, nlohmann::json::array())}}.dump(), name, "--overheads");
  if (!times.ok()) return times.status();
  return std::make_shared<const simulator::RestartTimes>(*std::move(times));
}

// What ran live: as fast, and with so much less to do. (Not the whole workload by scaled times: the policy's own times,
// such as how long a change must pay, are not scaled in the live allocator either.)
std::vector<simulator::WorkloadJob> Compressed(std::vector<simulator::WorkloadJob> jobs, double compression) {
  std::map<std::string, std::shared_ptr<const simulator::Application>> applications;
  for (simulator::WorkloadJob& job : jobs) {
    std::shared_ptr<const simulator::Application>& application = applications[job.application->name];
    if (application == nullptr) {
      auto compressed = std::make_shared<simulator::Application>(*job.application);
      compressed->curve = job.application->curve.Shortened(compression);
      application = std::move(compressed);
    }
    job.application = application;
    job.submitted /= compression;
  }
  return jobs;
}

// By the clock of the workload again.
void Stretch(double compression, simulator::SimulationResult* result) {
  for (simulator::JobOutcome& job : result->jobs) {
    for (double* seconds : {&job.submitted, &job.started, &job.completed, &job.gpu_seconds})
      *seconds *= compression;
  }
}

absl::StatusOr<simulator::SimulationResult> SimulateLike(const std::vector<simulator::WorkloadJob>& jobs,
                                                         const Options& options) {
  std::ifstream input(options.overheads);
  const nlohmann::json file = nlohmann::json::parse(input, nullptr, /*allow_exceptions=*/false);
  if (!file.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--overheads ", options.overheads, " is no file of \"measure\""));
  }
  simulator::SimulationOptions simulation;
  simulation.round_seconds = 0;
  simulation.interval_seconds /= options.live.compression;
  simulation.report_seconds /= options.live.compression;
  simulation.gradient_memory = kGradientMemory / options.live.compression;
  simulation.gradient_period = 1;
  simulation.search = simulator::BatchSearch::kLibrary;
  for (const auto& [name, times] :
       {std::pair{"start_s", &simulation.restart_times}, std::pair{"in_place_s", &simulation.in_place_times},
        std::pair{"newcomers_s", &simulation.newcomer_times}}) {
    auto recorded = TimesOf(file, name);
    if (!recorded.ok()) return recorded.status();
    *times = *std::move(recorded);
  }
  const auto cluster =
      simulator::Cluster::Parse(absl::StrCat(options.live.nodes, "x", options.live.slots_per_node));
  if (!cluster.ok()) return cluster.status();
  const auto scheduler = simulator::MakeScheduler(options.live.arm == Arm::kElastic ? "goodput" : "fifo", {});
  if (!scheduler.ok()) return scheduler.status();
  const RealClock clock;
  auto result = simulator::Simulate(*cluster, Compressed(jobs, options.live.compression), **scheduler, clock,
                                    simulation);
  if (result.ok()) Stretch(options.live.compression, &*result);
  return result;
}

absl::Status CompareBoth(const Options& options) {
  const auto jobs = LoadJobs(options);
  if (!jobs.ok()) return jobs.status();
  const absl::StatusOr<simulator::SimulationResult> simulated = SimulateLike(*jobs, options);
  if (!simulated.ok()) return simulated.status();
  const absl::StatusOr<LiveRun> live = RunAndTell(*jobs, options.live);
  if (!live.ok()) return live.status();
  std::cout << ToTable(Compare(*live, *simulated));
  if (options.output.empty()) return absl::OkStatus();
  return Write(options.output, ToJson(*live, *simulated));
}

// Only the simulated side, in a second.
absl::Status OnlySimulate(const Options& options) {
  const auto jobs = LoadJobs(options);
  if (!jobs.ok()) return jobs.status();
  const absl::StatusOr<simulator::SimulationResult> result = SimulateLike(*jobs, options);
  if (!result.ok()) return result.status();
  for (const simulator::JobOutcome& job : result->jobs)
    std::cout << absl::StrCat(job.name, ",", job.submitted, ",", job.jct(), ",", job.gpu_seconds, "\n");
  return absl::OkStatus();
}

void AddCommon(CLI::App* app, Options* options) {
  app->add_option("--workload", options->workload, "CSV of jobs, as adaptdl-sim has it")->required();
  app->add_option("--traces", options->live.traces, "Folder that has traces/<application>; may be repeated")
      ->required();
  app->add_option("--nodes", options->live.nodes, "Virtual nodes")->capture_default_str();
  app->add_option("--slots", options->live.slots_per_node, "Replicas that each of them holds")
      ->capture_default_str();
  app->add_option("--compression", options->live.compression, "Runs so many times faster")
      ->check(CLI::Range(1.0, 20.0))
      ->capture_default_str();
  app->add_option("--jobs", options->jobs, "Only the first so many; 0: all")->capture_default_str();
  app->add_option("--every", options->every, "Of each so many jobs only the first one")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--overheads", options->overheads, "File of what starts and changes take")->required();
}

int Main(int argc, char** argv) {
  CLI::App app{"Runs a workload live, and compares with its simulation."};
  app.require_subcommand(1);
  Options options;
  options.live.program = std::string(ADAPTDL_BINARY_DIR) + "/bench/played_job";
  CLI::App* measure = app.add_subcommand("measure", "Record what starts and changes of replicas take");
  AddCommon(measure, &options);
  CLI::App* compare = app.add_subcommand("compare", "Run a workload live and simulated");
  AddCommon(compare, &options);
  CLI::App* simulate =
      app.add_subcommand("simulate", "Simulate it only: name, submission, completion time, replica time");
  AddCommon(simulate, &options);
  bool is_static = false;
  for (CLI::App* one : {compare, simulate})
    one->add_flag("--static", is_static, "First come, first served, instead of elastic");
  compare->add_option("--output", options.output, "File for both sides of each job, as JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  // Jobs run elsewhere.
  for (std::string& folder : options.live.traces) folder = std::filesystem::absolute(folder);
  options.live.arm = is_static ? Arm::kStatic : Arm::kElastic;
  const absl::Status status = measure->parsed()    ? Measure(options)
                              : simulate->parsed() ? OnlySimulate(options)
                                                   : CompareBoth(options);
  if (status.ok()) return 0;
  std::cerr << "replay_bench: error: " << status.message() << '\n';
  return 1;
}

}  // namespace
}  // namespace adaptdl::replay

int main(int argc, char** argv) { return adaptdl::replay::Main(argc, argv); }
