#include "simulator/fleet_command.h"

#include <map>

#include "simulator/duration_flag.h"
#include "simulator/fleet/report.h"

namespace adaptdl::simulator {

FleetCommand::FleetCommand(CLI::App* app)
    : command_(
          app->add_subcommand("fleet", "Simulate a week of made-up jobs on many clusters under one front")) {
  SimulationOptions* simulation = &options_.simulation;
  simulation->restart_seconds.reset();
  simulation->search = BatchSearch::kLibrary;
  command_->add_option("--clusters", options_.clusters, "Number of clusters")->capture_default_str();
  command_
      ->add_option(
          "--cluster", options_.kinds,
          "What a cluster is made of: a100:2000x8; repeated: the clusters are of these kinds in turn")
      ->capture_default_str();
  command_->add_option("--simulate", options_.simulated, "Clusters that are simulated in full; negative: all")
      ->capture_default_str();
  command_
      ->add_option("--jobs-per-hour", options_.jobs_per_hour,
                   "Submissions to the whole fleet, the mean of a week")
      ->capture_default_str();
  AddDuration(command_, "--duration", &options_.duration, "For so long jobs are submitted");
  command_->add_option("--tenants", options_.tenants, "Number of tenants; 0: twenty for each cluster")
      ->capture_default_str();
  const std::map<std::string, Router> routers = {{"random", Router::kRandom},
                                                 {"home", Router::kHome},
                                                 {"two-choices", Router::kTwoChoices},
                                                 {"shard", Router::kShard}};
  command_
      ->add_option("--router", options_.front.router,
                   "Where the front sends jobs: random, home, two-choices or shard")
      ->transform(CLI::CheckedTransformer(routers))
      ->default_str("two-choices");
  command_->add_option("--fronts", options_.front.replicas, "Replicas of the front")->capture_default_str();
  AddDuration(command_, "--report-period", &options_.front.report_seconds,
              "Time between two reports of a cluster");
  command_->add_option("--policy", options_.policy, "Of the clusters that are simulated in full")
      ->capture_default_str();
  AddDuration(command_, "--round", &simulation->round_seconds, "Time between decisions");
  AddDuration(command_, "--node-mtbf", &simulation->nodes.mtbf,
              "Mean time between failures of one node; 0: none fails");
  AddDuration(command_, "--node-repair", &simulation->nodes.repair, "Time until a failed node is back");
  AddDuration(command_, "--checkpoint-period", &simulation->checkpoint_seconds,
              "Time between checkpoints of a job");
  command_->add_option("--threads", options_.threads, "Clusters that are simulated at a time")
      ->capture_default_str();
  command_->add_option("--seed", options_.seed, "Seed of all that is random")->capture_default_str();
  const std::map<std::string, bool> formats = {{"table", false}, {"json", true}};
  command_->add_option("-o,--output", json_, "table or json")
      ->transform(CLI::CheckedTransformer(formats))
      ->default_str("table");
}

absl::StatusOr<std::string> FleetCommand::Run() const {
  const absl::StatusOr<FleetResult> result = SimulateFleet(options_);
  if (!result.ok()) return result.status();
  return json_ ? ToJson(*result) : ToTable(*result);
}

}  // namespace adaptdl::simulator
