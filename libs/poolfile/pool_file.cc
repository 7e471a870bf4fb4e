#include "libs/poolfile/pool_file.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/file.h"
#include "libs/jobfile/checker.h"
#include "libs/jobfile/document.h"
#include "libs/jobspec/checks.h"
#include "libs/poolfile/pool_section.h"
#include "libs/poolfile/section.h"

namespace adaptdl::poolfile {
namespace {

using jobfile::KnownField;
using jobfile::Node;
using jobfile::Problems;
using jobfile::Quoted;
using jobfile::Type;

constexpr double kHighestBudget = 1e9;

constexpr KnownField kRoot[] = {
    {"cluster", Type::kText}, {"currency", Type::kText},     {"target", Type::kMap},
    {"floorOn", Type::kText}, {"cooldown", Type::kQuantity}, {"drainTimeout", Type::kQuantity},
    {"pools", Type::kList},
};

constexpr KnownField kTarget[] = {
    {"mode", Type::kText},          {"utilityLow", Type::kNumber},
    {"utilityHigh", Type::kNumber}, {"budgetPerHour", Type::kNumber},
    {"deadline", Type::kText},      {"goodputPerDollar", Type::kNumber},
};

// Which field belongs to which mode.
constexpr struct {
  absl::string_view name;
  TargetMode mode;
} kOfMode[] = {{"utilityLow", TargetMode::kBand},
               {"utilityHigh", TargetMode::kBand},
               {"budgetPerHour", TargetMode::kBudget},
               {"deadline", TargetMode::kDeadline},
               {"goodputPerDollar", TargetMode::kCost}};

void ReadTarget(const Section& section, Target* target) {
  int mode = 0;
  if (section.Has("mode") && !section.ReadWord("mode", {"band", "budget", "deadline", "cost"}, &mode)) return;
  target->mode = TargetMode{mode};
  for (const auto& field : kOfMode) {
    if (field.mode != target->mode)
      section.Exclude({field.name}, absl::StrCat("it belongs to mode: ", TargetModeName(field.mode)));
  }
  // Greater than 0, as far as anybody can tell.
  constexpr double kLeast = 1e-6;
  section.ReadNumber("utilityLow", kLeast, 1, &target->utility_low);
  section.ReadNumber("utilityHigh", kLeast, 1, &target->utility_high);
  section.ReadNumber("budgetPerHour", kLeast, kHighestBudget, &target->budget_per_hour);
  section.ReadNumber("goodputPerDollar", kLeast, kHighestBudget, &target->goodput_per_dollar);
  absl::Time deadline;
  if (section.ReadTime("deadline", &deadline)) target->deadline = deadline;
  if (target->utility_low >= target->utility_high)
    section.Refuse(section.Has("utilityLow") ? "utilityLow" : "utilityHigh",
                   absl::StrCat("leaves no band: utilityLow, ", target->utility_low,
                                ", must be less than utilityHigh, ", target->utility_high));
  if (target->mode == TargetMode::kBudget) section.Require("budgetPerHour", "mode: budget needs it");
  if (target->mode == TargetMode::kCost) section.Require("goodputPerDollar", "mode: cost needs it");
}

void CheckNames(const std::vector<Pool>& pools, Problems* problems) {
  std::map<std::string, size_t> first;
  for (size_t i = 0; i < pools.size(); ++i) {
    if (pools[i].name.empty()) continue;
    const auto [other, inserted] = first.insert({pools[i].name, i});
    if (!inserted)
      problems->Add(pools[i].line, absl::StrCat("pools[", i, "].name is that of pools[", other->second, "], ",
                                                Quoted(pools[i].name), "; give each its own"));
  }
}

// The group of machines that the pool resizes. Empty: none.
std::string GroupOf(const Pool& pool) {
  if (pool.provider == Provider::kGcp && !pool.gcp.instance_group.empty())
    return absl::StrCat("gcp ", pool.gcp.project, " ", pool.gcp.zone, " ", pool.gcp.instance_group);
  if (pool.provider != Provider::kAws || pool.aws.auto_scaling_group.empty()) return "";
  return absl::StrCat("aws ", pool.aws.region, " ", pool.aws.endpoint, " ", pool.aws.auto_scaling_group);
}

// Two pools that resize one group would undo each other's work.
void CheckGroups(const std::vector<Pool>& pools, Problems* problems) {
  std::map<std::string, size_t> first;
  for (size_t i = 0; i < pools.size(); ++i) {
    const std::string group = GroupOf(pools[i]);
    if (group.empty()) continue;
    const auto [other, inserted] = first.insert({group, i});
    if (!inserted)
      problems->Add(pools[i].line, absl::StrCat("pools[", i, "] resizes the same group as pools[",
                                                other->second, "]; give each its own"));
  }
}

// What a target that reckons with money needs to know.
void CheckPrices(const PoolFile& file, Problems* problems) {
  const absl::string_view mode = TargetModeName(file.target.mode);
  double least = 0;
  for (size_t i = 0; i < file.pools.size(); ++i) {
    const Pool& pool = file.pools[i];
    least += pool.min_nodes * pool.price_per_hour.value_or(0);
    if (!pool.price_per_hour.has_value())
      problems->Add(pool.line, absl::StrCat("pools[", i, "].pricePerHour is missing; target.mode: ", mode,
                                            " needs the price of each pool"));
  }
  if (file.target.mode == TargetMode::kBudget && file.target.budget_per_hour > 0 &&
      least > file.target.budget_per_hour)
    problems->Add(file.pools.front().line,
                  absl::StrCat("pools: minNodes of all of them cost ", least,
                               " per hour, more than target.budgetPerHour, ", file.target.budget_per_hour,
                               "; lower the one or raise the other"));
}

void CheckFloor(const Section& section, const PoolFile& file) {
  const auto carries = [](const Pool& pool) { return !pool.spot && pool.max_nodes > 0; };
  if (file.floor_on == FloorOn::kOnDemand && std::none_of(file.pools.begin(), file.pools.end(), carries))
    section.Refuse("floorOn",
                   "is on-demand, and no pool without spot may have a node; add one, or leave it out");
}

void ReadCurrency(const Section& section, std::string* currency) {
  section.ReadText("currency", currency);
  const bool letters = std::all_of(currency->begin(), currency->end(), absl::ascii_isupper);
  if (currency->size() != 3 || !letters)
    section.Refuse("currency",
                   absl::StrCat("must be three letters of ISO 4217 such as USD, not ", Quoted(*currency)));
}

void ReadRoot(const Node& root, PoolFile* file, Problems* problems) {
  if (root.kind != Node::Kind::kMap) {
    problems->Add(root.line, "a pool file must be a map of fields (target, pools)");
    return;
  }
  const Section section(root, "", kRoot, problems);
  section.ReadText("cluster", &file->cluster);
  if (!jobspec::IsDnsLabel(file->cluster))
    section.Refuse("cluster", absl::StrCat("must be a DNS label, not ", Quoted(file->cluster)));
  ReadCurrency(section, &file->currency);
  if (const Node* target = section.Map("target"))
    ReadTarget(Section(*target, "target", kTarget, problems), &file->target);
  int floor = 0;
  if (section.ReadWord("floorOn", {"any", "on-demand"}, &floor)) file->floor_on = FloorOn{floor};
  section.ReadDuration("cooldown", absl::ZeroDuration(), absl::Hours(24), &file->cooldown);
  absl::Duration drain;
  if (section.ReadDuration("drainTimeout", absl::Seconds(1), absl::Hours(7 * 24), &drain))
    file->drain_timeout = drain;
  section.Require("pools", "list at least one");
  for (const Section::Item& item : section.Items("pools", kMaxPools))
    file->pools.push_back(ReadPool(*item.node, item.path, problems));
  if (file->pools.empty()) {
    if (section.Has("pools")) section.Refuse("pools", "is empty; list at least one");
    return;
  }
  CheckNames(file->pools, problems);
  CheckGroups(file->pools, problems);
  const bool money = file->target.mode == TargetMode::kBudget || file->target.mode == TargetMode::kCost;
  if (money) CheckPrices(*file, problems);
  CheckFloor(section, *file);
}

}  // namespace

absl::string_view ProviderName(Provider provider) {
  switch (provider) {
    case Provider::kProcess:
      return "process";
    case Provider::kKubernetes:
      return "kubernetes";
    case Provider::kAws:
      return "aws";
    case Provider::kGcp:
      return "gcp";
  }
  return "";
}

absl::string_view TargetModeName(TargetMode mode) {
  switch (mode) {
    case TargetMode::kBand:
      return "band";
    case TargetMode::kBudget:
      return "budget";
    case TargetMode::kDeadline:
      return "deadline";
    case TargetMode::kCost:
      return "cost";
  }
  return "";
}

absl::StatusOr<PoolFile> ParsePoolFile(absl::string_view content, absl::string_view file_name) {
  const absl::StatusOr<Node> root = jobfile::ParseDocument(content, file_name);
  if (!root.ok()) return root.status();
  Problems problems(file_name);
  PoolFile file;
  ReadRoot(*root, &file, &problems);
  if (const absl::Status status = problems.ToStatus(); !status.ok()) return status;
  file.warnings = problems.Warnings();
  return file;
}

absl::StatusOr<PoolFile> ReadPoolFile(const std::string& path) {
  const absl::StatusOr<std::string> content = ReadWholeFile(path, jobfile::kMaxFileBytes);
  if (!content.ok()) return content.status();
  return ParsePoolFile(*content, std::filesystem::path(path).filename().string());
}

}  // namespace adaptdl::poolfile
