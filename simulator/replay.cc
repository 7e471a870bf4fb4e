#include "simulator/replay.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/clock.h"
#include "libs/base/file.h"
#include "simulator/history/fitted_workload.h"
#include "simulator/history/history.h"
#include "simulator/history/what_if.h"
#include "simulator/node_flags.h"
#include "simulator/report/cost.h"
#include "simulator/report/cpu_time.h"
#include "simulator/report/fairness.h"
#include "simulator/report/summary.h"
#include "simulator/schedulers/factory.h"
#include "simulator/traces/work_scatter.h"

namespace adaptdl::simulator {
namespace {

std::vector<std::string> TraceFolders(const std::vector<std::string>& given) {
  std::vector<std::string> folders = given;
  // Absolute, because "." and "x/" have no parent in their text.
  std::error_code error;
  const std::filesystem::path first = std::filesystem::weakly_canonical(given.front(), error);
  folders.push_back((first.parent_path() / "pollux").string());
  return folders;
}

// What is replayed, and how.
struct Input {
  Cluster cluster;
  std::vector<WorkloadJob> workload = {};
  SimulationOptions simulation;
  std::optional<Prices> prices = {};
  std::vector<LeftOut> left_out = {};
};

// Sets what the flags about nodes say, and the cluster and prices that go with it.
absl::Status ApplyNodeFlags(const ReplayOptions& options, Input* input) {
  NodeOptions* nodes = &input->simulation.nodes;
  if (!options.autoscale.empty()) {
    absl::StatusOr<ScalingCluster> scaling = ParseAutoscale(options.autoscale, input->cluster);
    if (!scaling.ok()) {
      return scaling.status();
    }
    input->cluster = std::move(scaling->cluster);
    nodes->pools = std::move(scaling->pools);
  }
  if (!options.spot_nodes.empty()) {
    absl::StatusOr<std::vector<int>> spot = ParseSpotNodes(options.spot_nodes, input->cluster);
    if (!spot.ok()) {
      return spot.status();
    }
    nodes->spot_nodes = *std::move(spot);
  }
  if (!options.spot_price.empty() && (options.price.empty() || options.spot_nodes.empty())) {
    return absl::InvalidArgumentError(
        "--spot-price: it needs --price and --spot-nodes beside it; add them, or leave it out");
  }
  if (!options.price.empty()) {
    absl::StatusOr<Prices> parsed = ParsePrices(options.price, options.spot_price, input->cluster);
    if (!parsed.ok()) {
      return parsed.status();
    }
    nodes->lasting_prices = parsed->lasting;
    nodes->spot_prices = parsed->spot;
    input->prices = *std::move(parsed);
  }
  return absl::OkStatus();
}

absl::StatusOr<Input> LoadTraces(const ReplayOptions& options) {
  absl::StatusOr<Cluster> cluster = Cluster::Parse(options.cluster);
  if (!cluster.ok()) {
    return cluster.status();
  }
  if (options.workload.empty()) {
    return absl::InvalidArgumentError("workload: none given; name a CSV of jobs, or a history");
  }
  if (options.traces.empty()) {
    return absl::InvalidArgumentError("traces: none given; name the folder of a simulator's traces");
  }
  Input input{.cluster = *std::move(cluster), .simulation = options.simulation};
  if (absl::Status status = ApplyNodeFlags(options, &input); !status.ok()) {
    return status;
  }
  const TraceRules rules = DetectRules(options.traces.front());
  absl::StatusOr<std::vector<WorkloadJob>> workload =
      LoadWorkload({options.workload, TraceFolders(options.traces), input.cluster.gpu_types(), rules});
  if (!workload.ok()) {
    return workload.status();
  }
  input.workload = *std::move(workload);
  MakePlain(options.plain_part, options.scheduler.seed, &input.workload);
  ScatterWork(options.work_scatter, options.scheduler.seed, &input.workload);
  input.simulation.free_moves = rules == TraceRules::kSia;
  return input;
}

absl::StatusOr<Input> LoadHistory(const ReplayOptions& options) {
  const absl::StatusOr<std::string> text = ReadWholeFile(options.history);
  if (!text.ok()) {
    return text.status();
  }
  const absl::StatusOr<History> history = ParseHistory(*text);
  if (!history.ok()) {
    return history.status();
  }
  absl::StatusOr<Cluster> cluster = ToCluster(*history);
  if (!cluster.ok()) {
    return cluster.status();
  }
  Input input{.cluster = *std::move(cluster), .simulation = options.simulation};
  if (absl::Status status = ApplyNodeFlags(options, &input); !status.ok()) {
    return status;
  }
  FittedWorkload workload = FitWorkload(*history, input.cluster.gpu_types(), {});
  LeaveOutWhatDoesNotFit(input.cluster, "the cluster", &workload);
  if (workload.jobs.empty()) {
    return absl::FailedPreconditionError(NothingToReplay(workload.left_out));
  }
  input.workload = std::move(workload.jobs);
  input.left_out = std::move(workload.left_out);
  input.simulation.round_seconds = 0;
  input.simulation.restart_seconds.reset();
  input.simulation.search = BatchSearch::kLibrary;
  return input;
}

// What was recorded of starts and changes.
absl::Status LoadTimes(const ReplayOptions& options, SimulationOptions* simulation) {
  const struct {
    const std::string& path;
    const char* option;
    std::shared_ptr<const RestartTimes>* times;
  } files[] = {
      {options.restart_times, "--restart-times", &simulation->restart_times},
      {options.in_place_times, "--in-place-times", &simulation->in_place_times},
      {options.newcomer_times, "--newcomer-times", &simulation->newcomer_times},
  };
  for (const auto& file : files) {
    if (file.path.empty()) continue;
    absl::StatusOr<RestartTimes> times = RestartTimes::Load(file.path, file.option);
    if (!times.ok()) return times.status();
    *file.times = std::make_shared<const RestartTimes>(*std::move(times));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> Replay(const ReplayOptions& options) {
  absl::StatusOr<Input> input = options.history.empty() ? LoadTraces(options) : LoadHistory(options);
  if (!input.ok()) {
    return input.status();
  }
  SchedulerOptions scheduler_options = options.scheduler;
  scheduler_options.past =
      EarlierJobs(options.earlier_jobs, options.work_scatter, options.scheduler.seed, input->workload);
  absl::StatusOr<std::unique_ptr<Scheduler>> scheduler = MakeScheduler(options.policy, scheduler_options);
  if (!scheduler.ok()) {
    return scheduler.status();
  }
  if (!options.history.empty() && !(*scheduler)->adaptive()) {
    return absl::InvalidArgumentError(
        absl::StrCat("policy: ", options.policy, " knows no elastic jobs, and histories hold no others"));
  }
  SimulationOptions& simulation = input->simulation;
  simulation.seed = options.scheduler.seed;
  if (absl::Status status = LoadTimes(options, &simulation); !status.ok()) return status;
  const RealClock clock;
  absl::StatusOr<SimulationResult> result =
      Simulate(input->cluster, input->workload, **scheduler, clock, simulation);
  if (!result.ok()) {
    return result.status();
  }
  const std::vector<double> fairness =
      FinishTimeFairness(input->cluster, input->workload, (*scheduler)->adaptive(), simulation, *result);
  Summary summary = Summarise(options.policy, input->cluster, *result, fairness, CpuSeconds());
  const bool failures =
      simulation.nodes.mtbf > 0 || !simulation.nodes.spot_nodes.empty() || options.plain_part > 0;
  const Prices* prices = input->prices ? &*input->prices : nullptr;
  AddNodes(input->cluster, *result, failures, prices, &summary);
  if (options.timeline) AddTimeline(input->cluster, *result, &summary);
  switch (options.format) {
    case OutputFormat::kJson:
      return ToJson(summary);
    case OutputFormat::kCsv:
      return ToCsv(summary);
    case OutputFormat::kTable:
      break;
  }
  std::string table = ToTable(summary);
  for (const LeftOut& job : input->left_out) {
    absl::StrAppend(&table, "left out: ", job.job, ": ", job.reason, "\n");
  }
  return table;
}

}  // namespace adaptdl::simulator
