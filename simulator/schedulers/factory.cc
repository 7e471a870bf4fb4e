#include "simulator/schedulers/factory.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "simulator/schedulers/fifo.h"
#include "simulator/schedulers/optimus.h"
#include "simulator/schedulers/policy_scheduler.h"
#include "simulator/schedulers/tiresias.h"

namespace adaptdl::simulator {
namespace {

using Maker = std::function<std::unique_ptr<Scheduler>()>;

// Those that are no allocation policies: they keep state, or choose sizes as jobs come and go.
std::map<std::string, Maker> Baselines() {
  return {
      {"fifo", [] { return std::make_unique<Fifo>(); }},
      {"optimus", [] { return std::make_unique<Optimus>(); }},
      {"tiresias", [] { return std::make_unique<Tiresias>(); }},
  };
}

}  // namespace

std::string SchedulerNames(const Policies& policies) {
  std::vector<std::string> names;
  for (const auto& [name, make] : policies) names.push_back(name);
  for (const auto& [name, maker] : Baselines()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return absl::StrJoin(names, ", ");
}

absl::StatusOr<std::unique_ptr<Scheduler>> MakeScheduler(absl::string_view name,
                                                         const SchedulerOptions& options) {
  const std::map<std::string, Maker> baselines = Baselines();
  const auto found = baselines.find(std::string(name));
  if (found != baselines.end()) {
    return found->second();
  }
  const auto policy = options.policies.find(std::string(name));
  if (policy == options.policies.end()) {
    return absl::InvalidArgumentError(absl::StrCat("policy: there is no policy \"", name,
                                                   "\"; choose one of ", SchedulerNames(options.policies)));
  }
  return std::make_unique<PolicyScheduler>(
      policy->second(), PolicyScheduler::Options{options.seed, options.remaining_work, options.past});
}

}  // namespace adaptdl::simulator
