#include "simulator/replay.h"

#include <ctime>
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
#include "simulator/node_flags.h"
#include "simulator/report/cost.h"
#include "simulator/report/fairness.h"
#include "simulator/report/plot.h"
#include "simulator/report/summary.h"
#include "simulator/schedulers/factory.h"

namespace adaptdl::simulator {
namespace {

// CPU time of this process, in seconds.
double CpuSeconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::vector<std::string> TraceFolders(const std::vector<std::string>& given) {
  std::vector<std::string> folders = given;
  // Absolute, because "." and "x/" have no parent in their text.
  std::error_code error;
  const std::filesystem::path first = std::filesystem::weakly_canonical(given.front(), error);
  folders.push_back((first.parent_path() / "pollux").string());
  return folders;
}

std::string PlotTitle(const ReplayOptions& options) {
  const std::filesystem::path path(options.workload);
  return absl::StrCat((path.parent_path().filename() / path.stem()).string(), " under ", options.policy,
                      " on ", options.cluster);
}

// Sets what the flags about nodes say, and the cluster and prices that go with it.
absl::Status ApplyNodeFlags(const ReplayOptions& options, Cluster* cluster, NodeOptions* nodes,
                            std::optional<Prices>* prices) {
  if (!options.autoscale.empty()) {
    absl::StatusOr<ScalingCluster> scaling = ParseAutoscale(options.autoscale, *cluster);
    if (!scaling.ok()) {
      return scaling.status();
    }
    *cluster = std::move(scaling->cluster);
    nodes->pools = std::move(scaling->pools);
  }
  if (!options.spot_nodes.empty()) {
    absl::StatusOr<std::vector<int>> spot = ParseSpotNodes(options.spot_nodes, *cluster);
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
    absl::StatusOr<Prices> parsed = ParsePrices(options.price, options.spot_price, *cluster);
    if (!parsed.ok()) {
      return parsed.status();
    }
    *prices = *std::move(parsed);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> Replay(const ReplayOptions& options) {
  absl::StatusOr<Cluster> cluster = Cluster::Parse(options.cluster);
  if (!cluster.ok()) {
    return cluster.status();
  }
  SimulationOptions simulation = options.simulation;
  std::optional<Prices> prices;
  if (absl::Status status = ApplyNodeFlags(options, &*cluster, &simulation.nodes, &prices); !status.ok()) {
    return status;
  }
  absl::StatusOr<std::unique_ptr<Scheduler>> scheduler = MakeScheduler(options.policy, options.scheduler);
  if (!scheduler.ok()) {
    return scheduler.status();
  }
  if (options.traces.empty()) {
    return absl::InvalidArgumentError("traces: none given; name the folder of a simulator's traces");
  }
  const TraceRules rules = DetectRules(options.traces.front());
  absl::StatusOr<std::vector<WorkloadJob>> workload =
      LoadWorkload({options.workload, TraceFolders(options.traces), cluster->gpu_types(), rules});
  if (!workload.ok()) {
    return workload.status();
  }
  simulation.free_moves = rules == TraceRules::kSia;
  simulation.seed = options.scheduler.seed;
  if (!options.restart_times.empty()) {
    absl::StatusOr<RestartTimes> times = RestartTimes::Load(options.restart_times);
    if (!times.ok()) {
      return times.status();
    }
    simulation.restart_times = std::make_shared<const RestartTimes>(*std::move(times));
  }
  const RealClock clock;
  absl::StatusOr<SimulationResult> result = Simulate(*cluster, *workload, **scheduler, clock, simulation);
  if (!result.ok()) {
    return result.status();
  }
  if (!options.svg.empty()) {
    if (absl::Status status = WriteFileAtomically(options.svg, Plot(PlotTitle(options), *cluster, *result));
        !status.ok()) {
      return status;
    }
  }
  const std::vector<double> fairness =
      FinishTimeFairness(*cluster, *workload, (*scheduler)->adaptive(), simulation, *result);
  Summary summary = Summarise(options.policy, *cluster, *result, fairness, CpuSeconds());
  const bool failures = simulation.nodes.mtbf > 0 || !simulation.nodes.spot_nodes.empty();
  AddNodes(*cluster, *result, failures, prices ? &*prices : nullptr, &summary);
  switch (options.format) {
    case OutputFormat::kJson:
      return ToJson(summary);
    case OutputFormat::kCsv:
      return ToCsv(summary);
    case OutputFormat::kTable:
      break;
  }
  return ToTable(summary);
}

}  // namespace adaptdl::simulator
