#include "services/autoscaler/pool_flags.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "CLI/Validators.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "libs/service/flags.h"

namespace adaptdl::autoscaler {
namespace {

// A DNS label with room for "-<k>": it begins the ids of the nodes.
std::string CheckPoolName(const std::string& name) {
  const bool characters =
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
  if (!name.empty() && name.size() <= 50 && characters && name.front() != '-' && name.back() != '-')
    return "";
  return absl::StrCat("\"", name,
                      "\" is no name for a pool: use a-z, 0-9 and - (inside), at most 50 characters");
}

// Flags that belong to one kind of target.
void AddTargetFlags(CLI::App& app, PoolFlags* flags) {
  nodepools::Target& target = flags->wanted;
  app.add_option("--target", flags->target,
                 "What to aim at: band (of utility), budget (per hour), deadline (of the jobs' work) or cost "
                 "(goodput "
                 "for what nodes cost)")
      ->check(CLI::IsMember({"band", "budget", "deadline", "cost"}))
      ->capture_default_str();
  app.add_option("--utility-low", target.utility_low, "Least utility of the band, above 0")
      ->capture_default_str();
  app.add_option("--utility-high", target.utility_high, "Largest utility of the band, at most 1")
      ->capture_default_str();
  app.add_option("--budget-per-hour", target.budget_per_hour, "Most that the pool's nodes may cost per hour");
  app.add_option("--goodput-per-dollar", target.goodput_per_price,
                 "Speed-up that each unit of currency per hour must bring at least");
  app.add_option("--node-price-per-hour", flags->node_price_per_hour,
                 "Price of a node per hour, in the currency of the budget");
  app.add_option("--deadline", flags->deadline,
                 "When the jobs that say how much work they have left are to be done, for example "
                 "2030-12-24T18:00:00+01:00");
}

// The deciding code speaks of fields of the pool file.
absl::Status NameFlags(const absl::Status& status) {
  return absl::Status(
      status.code(),
      absl::StrReplaceAll(status.message(), {{"utilityLow", "--utility-low"},
                                             {"utilityHigh", "--utility-high"},
                                             {"budgetPerHour", "--budget-per-hour"},
                                             {"goodputPerDollar", "--goodput-per-dollar"},
                                             {"a pricePerHour of each pool", "--node-price-per-hour"},
                                             {"the mode ", "--target "}}));
}

absl::StatusOr<nodepools::Target> ReadTarget(const PoolFlags& flags) {
  using nodepools::TargetMode;
  nodepools::Target target = flags.wanted;
  target.mode = flags.target == "budget"     ? TargetMode::kBudget
                : flags.target == "deadline" ? TargetMode::kDeadline
                : flags.target == "cost"     ? TargetMode::kCost
                                             : TargetMode::kBand;
  if (target.budget_per_hour != 0 && target.mode != TargetMode::kBudget)
    return absl::InvalidArgumentError("--budget-per-hour needs --target budget");
  if (target.goodput_per_price != 0 && target.mode != TargetMode::kCost)
    return absl::InvalidArgumentError("--goodput-per-dollar needs --target cost");
  if (!flags.deadline.empty() && target.mode != TargetMode::kDeadline)
    return absl::InvalidArgumentError("--deadline needs --target deadline");
  std::string error;
  if (target.mode == TargetMode::kDeadline &&
      !absl::ParseTime(absl::RFC3339_full, flags.deadline, &target.deadline, &error)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--target deadline needs a --deadline such as 2030-12-24T18:00:00+01:00, not \"",
                     flags.deadline, "\""));
  }
  if (!(flags.node_price_per_hour >= 0) || !std::isfinite(flags.node_price_per_hour)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--node-price-per-hour ", flags.node_price_per_hour, " is no price"));
  }
  const absl::Status status = nodepools::CheckTarget(target, flags.node_price_per_hour > 0);
  if (!status.ok()) return NameFlags(status);
  return target;
}

}  // namespace

void AddPoolFlags(CLI::App& app, PoolFlags* flags) {
  app.add_option("--provider", flags->provider,
                 "Where nodes come from: process (workers on this machine) or kubernetes (a cluster with an "
                 "autoscaler of its own)")
      ->check(CLI::IsMember({"process", "kubernetes"}))
      ->capture_default_str();
  app.add_option("--pool", flags->name, "Name of the pool; workers are called POOL-0, POOL-1, ...")
      ->check(CLI::Validator(CheckPoolName, ""))
      ->capture_default_str();
  app.add_option("--min-nodes", flags->min_nodes, "Fewest nodes")
      ->check(CLI::Range(0, 10'000))
      ->default_str("1; 0 with --provider kubernetes");
  app.add_option("--max-nodes", flags->max_nodes, "Most nodes; needed with --provider kubernetes")
      ->check(CLI::Range(0, 10'000))
      ->default_str("the machine's cores");
  service::AddDurationFlag(app, "--cooldown", &flags->wanted.cooldown,
                           "Time without a change before the pool shrinks");
  AddTargetFlags(app, flags);
}

absl::StatusOr<PoolSet> Interpret(const PoolFlags& flags) {
  const bool local = flags.provider == "process";
  if (!local && !flags.max_nodes.has_value()) {
    return absl::InvalidArgumentError(
        "--max-nodes is needed with --provider kubernetes: it bounds what the pool may cost");
  }
  PoolSet set;
  ManagedPool pool;
  pool.name = flags.name;
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  pool.min_nodes = flags.min_nodes.value_or(local ? 1 : 0);
  pool.max_nodes = flags.max_nodes.value_or(cores);
  if (pool.min_nodes > pool.max_nodes) {
    return absl::InvalidArgumentError(absl::StrCat("--min-nodes ", pool.min_nodes,
                                                   " is more than --max-nodes ", pool.max_nodes,
                                                   ": raise the one or lower the other"));
  }
  absl::StatusOr<nodepools::Target> target = ReadTarget(flags);
  if (!target.ok()) return target.status();
  set.target = *std::move(target);
  if (flags.node_price_per_hour > 0) pool.price_per_hour = flags.node_price_per_hour;
  const double least = pool.min_nodes * flags.node_price_per_hour;
  if (set.target.mode == nodepools::TargetMode::kBudget && least > set.target.budget_per_hour) {
    return absl::InvalidArgumentError(
        absl::StrCat("--budget-per-hour ", set.target.budget_per_hour, " does not pay for --min-nodes ",
                     pool.min_nodes, ", which cost ", least, ": raise the one or lower the other"));
  }
  set.pools.push_back(std::move(pool));
  return set;
}

}  // namespace adaptdl::autoscaler
