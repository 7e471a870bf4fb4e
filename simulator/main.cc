// adaptdl-sim: replays workloads on virtual time. docs/simulator.md.

#include <iostream>
#include <map>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/version.h"
#include "simulator/duration_flag.h"
#include "simulator/fleet_command.h"
#include "simulator/policies/all_policies.h"
#include "simulator/replay.h"
#include "simulator/schedulers/factory.h"

namespace adaptdl::simulator {
namespace {

// The texts that stand for something else than a duration.
struct Texts {
  std::string round = "60s";
  std::string restart = "30s";
};

double ParseSeconds(const std::string& option, const std::string& text, const std::string& word) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) || duration == absl::InfiniteDuration() ||
      duration < absl::ZeroDuration()) {
    throw CLI::ValidationError(option,
                               absl::StrCat("\"", text, "\" is neither a duration like 60s nor ", word));
  }
  return absl::ToDoubleSeconds(duration);
}

void ParseRestart(const std::string& text, ReplayOptions* options) {
  const bool measured = text == "measured";
  if (measured && options->restart_times.empty()) {
    throw CLI::ValidationError("--restart",
                               "\"measured\" needs --restart-times FILE; collect what jobs of a cluster "
                               "needed (\"Re-scale takes\" of "
                               "`adaptdl describe JOB`) into a file like {\"pause_s\": [12.5, 14.1]}");
  }
  if (!measured && !options->restart_times.empty()) {
    throw CLI::ValidationError(
        "--restart-times",
        absl::StrCat("--restart is \"", text, "\"; write --restart measured to use the file"));
  }
  std::optional<double>& seconds = options->simulation.restart_seconds;
  seconds.reset();
  if (!measured && text != "per-application") {
    seconds = ParseSeconds("--restart", text, "\"per-application\" or \"measured\"");
  }
}

void ParseTexts(const Texts& texts, ReplayOptions* options) {
  SimulationOptions* simulation = &options->simulation;
  simulation->round_seconds =
      texts.round == "events" ? 0 : ParseSeconds("--round", texts.round, "\"events\"");
  if (texts.round != "events" && simulation->round_seconds <= 0) {
    throw CLI::ValidationError("--round", "a round must be longer than 0; write \"events\" for no rounds");
  }
  ParseRestart(texts.restart, options);
}

// What the pools of nodes aim at; the fields of a pool file, docs/pools.md.
void AddTargetOptions(CLI::App* app, NodeOptions* nodes) {
  using nodepools::TargetMode;
  nodepools::Target* target = &nodes->target;
  const std::map<std::string, TargetMode> modes = {{"band", TargetMode::kBand},
                                                   {"budget", TargetMode::kBudget},
                                                   {"cost", TargetMode::kCost},
                                                   {"deadline", TargetMode::kDeadline}};
  app->add_option("--target", target->mode, "With autoscale: band, budget, cost or deadline")
      ->transform(CLI::CheckedTransformer(modes))
      ->default_str("band");
  app->add_option("--utility-low", target->utility_low, "With target band: least utility")
      ->capture_default_str();
  app->add_option("--utility-high", target->utility_high, "With target band: greatest utility")
      ->capture_default_str();
  app->add_option("--budget-per-hour", target->budget_per_hour,
                  "With target budget: most USD per hour for all nodes");
  app->add_option("--goodput-per-dollar", target->goodput_per_price,
                  "With target cost: speed-up that each USD per hour must bring");
  app->add_option("--keep-factor", target->keep_factor,
                  "With target cost: nodes that are there are kept down to this part of that")
      ->capture_default_str();
  AddDuration(app, "--deadline", &nodes->deadline, "With target deadline: when all jobs are to be done");
  const std::map<std::string, bool> floors = {{"any", false}, {"on-demand", true}};
  app->add_option("--floor", target->floor_on_lasting,
                  "With autoscale: where what jobs need at least is bought: any (the cheapest), or on-demand")
      ->transform(CLI::CheckedTransformer(floors))
      ->default_str("any");
}

void AddNodeOptions(CLI::App* app, ReplayOptions* options) {
  NodeOptions* nodes = &options->simulation.nodes;
  AddDuration(app, "--node-mtbf", &nodes->mtbf, "Mean time between failures of one node; 0: none fails");
  AddDuration(app, "--node-repair", &nodes->repair, "Time until a failed node is back");
  AddDuration(app, "--checkpoint-period", &options->simulation.checkpoint_seconds,
              "Time between checkpoints of a job; a failure costs it what came after the last one");
  app->add_option("--spot-nodes", options->spot_nodes,
                  "Number of nodes that may be taken away: 4 of each GPU type, or aws=4,rtx=1");
  AddDuration(app, "--spot-lifetime", &nodes->spot_lifetime,
              "Mean time until a spot node is taken away; 0: none is");
  app->add_option("--spot-together", nodes->spot_together,
                  "Chance of each spot node of a GPU type to be taken whenever some are; 0: one by one")
      ->capture_default_str();
  AddDuration(app, "--spot-notice", &nodes->spot_notice, "How long before it is announced");
  AddDuration(app, "--spot-return", &nodes->spot_return, "Time until a spot node is back");
  AddDuration(app, "--spot-refusal", &nodes->spot_refusal,
              "With autoscale: mean time without spot capacity after nodes were taken together");
  AddDuration(app, "--spot-scarcity", &nodes->spot_scarcity,
              "With autoscale: mean time between such times that begin by themselves; 0: there are none");
  app->add_option(
      "--autoscale", options->autoscale,
      "Bounds of the number of nodes, which follows the jobs' demand: 1..16, or aws=1..16,rtx=0..4");
  AddDuration(app, "--node-start", &nodes->start, "With autoscale: time until a new node is there");
  AddDuration(app, "--cooldown", &nodes->cooldown,
              "With autoscale: time without a change of size before nodes are removed");
  AddTargetOptions(app, nodes);
  app->add_option("--price", options->price, "USD per node and hour: 12.24, or aws=12.24,rtx=8");
  app->add_option("--spot-price", options->spot_price, "The same of spot nodes, where it differs");
}

void AddReplay(CLI::App* app, ReplayOptions* options, Texts* texts) {
  SimulationOptions* simulation = &options->simulation;
  CLI::Option* workload = app->add_option("--workload", options->workload,
                                          "CSV of jobs: name, time, application, num_replicas, batch_size");
  CLI::Option* traces =
      app->add_option("--traces", options->traces, "Folder that has traces/<application>; may be repeated");
  CLI::Option* cluster =
      app->add_option("--cluster", options->cluster, "16x4, or by GPU type: aws:6x4,rtx:3x8")
          ->capture_default_str();
  app->add_option("--history", options->history,
                  "Instead of these three: jobs and nodes of a live cluster, written by \"adaptdl what-if "
                  "--save-history\"")
      ->excludes(workload)
      ->excludes(traces)
      ->excludes(cluster);
  app->add_option("--policy", options->policy,
                  absl::StrCat("One of ", SchedulerNames(options->scheduler.policies)))
      ->required();
  app->add_option("--round", texts->round,
                  "Time between decisions, or \"events\": as the live allocator decides")
      ->capture_default_str();
  AddDuration(app, "--interval", &simulation->interval_seconds,
              "With events: longest time between decisions");
  AddDuration(app, "--debounce", &simulation->debounce_seconds, "With events: time to wait for further ones");
  AddDuration(app, "--report-period", &simulation->report_seconds,
              "With events: time between a job's reports");
  app->add_option("--restart", texts->restart,
                  "What a restart costs: a duration, \"per-application\", or \"measured\"")
      ->capture_default_str();
  app->add_option("--restart-times", options->restart_times,
                  "With measured: JSON of recorded seconds, {\"pause_s\": [12.5, 14.1]}");
  app->add_option(
      "--in-place-times", options->in_place_times,
      "Jobs that keep a replica are re-scaled in place, and take one of these times: JSON as above");
  app->add_option("--newcomer-times", options->newcomer_times,
                  "Such a change waits for its newcomers, who take one of these times: JSON as above");
  app->add_option("--gradient-memory", simulation->gradient_memory,
                  "Jobs know gradient statistics by averages over so many batches of the initial size; 0: as "
                  "they are at the moment")
      ->capture_default_str();
  AddNodeOptions(app, options);
  app->add_option(
         "--plain-part", options->plain_part,
         "Part of the jobs that are plain programs, from 0 to 1: they keep the workload's GPUs and batch "
         "size, measure nothing, and begin anew when they were stopped")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app->add_option("--work-scatter", options->work_scatter,
                  "How much the jobs' work differs from their application's: the deviation of its logarithm, "
                  "from 0 to 3")
      ->check(CLI::Range(0.0, 3.0))
      ->capture_default_str();
  app->add_option(
         "--earlier-jobs", options->earlier_jobs,
         "With --remaining-work history: jobs of each application that were done before, drawn likewise")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  app->add_option("--interference", simulation->interference,
                  "Slow-down of distributed jobs that share a node, from 0 to below 1")
      ->capture_default_str();
  const std::map<std::string, BatchSearch> searches = {{"grid", BatchSearch::kGrid},
                                                       {"library", BatchSearch::kLibrary}};
  app->add_option(
         "--batch-search", simulation->search,
         "How jobs choose their batch size: grid (as in the published simulators), library (as our own do)")
      ->transform(CLI::CheckedTransformer(searches))
      ->default_str("grid");
  app->add_option("--seed", options->scheduler.seed,
                  "Seed of the policy and of what is random in the simulation")
      ->capture_default_str();
  const std::map<std::string, RemainingWork> knowledge = {{"known", RemainingWork::kKnown},
                                                          {"unknown", RemainingWork::kUnknown},
                                                          {"history", RemainingWork::kHistory}};
  app->add_option("--remaining-work", options->scheduler.remaining_work,
                  "What the policy knows of the work that is left: known, unknown, or history (what jobs of "
                  "the same application took that are done)")
      ->transform(CLI::CheckedTransformer(knowledge))
      ->default_str("known");
  const std::map<std::string, OutputFormat> formats = {
      {"table", OutputFormat::kTable}, {"json", OutputFormat::kJson}, {"csv", OutputFormat::kCsv}};
  app->add_option("-o,--output", options->format, "table, json, or csv (one line per job)")
      ->transform(CLI::CheckedTransformer(formats))
      ->default_str("table");
  app->add_option("--watch", simulation->watched_job,
                  "With json: record the GPUs, batch size and gradient noise of this job over time");
  app->add_flag("--timeline", options->timeline,
                "With json: record the GPUs of each job over time, for scripts/plot-run.sh");
}

int Main(int argc, char** argv) {
  CLI::App app("Replays training workloads against allocation policies, on virtual time.");
  app.set_version_flag("--version", std::string(Version()));
  app.require_subcommand(1);
  ReplayOptions options;
  options.scheduler.policies = AllPolicies();
  Texts texts;
  CLI::App* replay = app.add_subcommand("replay", "Simulate one workload under one policy");
  AddReplay(replay, &options, &texts);
  const FleetCommand fleet(&app);
  try {
    app.parse(argc, argv);
    if (replay->parsed()) ParseTexts(texts, &options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  const absl::StatusOr<std::string> output = fleet.given() ? fleet.Run() : Replay(options);
  if (!output.ok()) {
    std::cerr << "adaptdl-sim: " << output.status().message() << "\n";
    return 1;
  }
  std::cout << *output;
  return 0;
}

}  // namespace
}  // namespace adaptdl::simulator

int main(int argc, char** argv) { return adaptdl::simulator::Main(argc, argv); }
