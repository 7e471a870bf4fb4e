#include "simulator/schedulers/factory.h"

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/scheduling/greedy_policy.h"
#include "libs/scheduling/pollux/pollux_policy.h"
#include "libs/scheduling/sia/sia_policy.h"
#include "simulator/schedulers/optimus.h"
#include "simulator/schedulers/policy_scheduler.h"
#include "simulator/schedulers/tiresias.h"

namespace adaptdl::simulator {
namespace {

namespace pollux = scheduling::pollux;

using Maker = std::function<std::unique_ptr<Scheduler>(uint64_t seed)>;

std::unique_ptr<Scheduler> MakePollux(pollux::Variant variant, uint64_t seed) {
  return std::make_unique<PolicyScheduler>(
      std::make_unique<pollux::PolluxPolicy>(pollux::PolluxOptions{.search = {.variant = variant}}), seed);
}

std::map<std::string, Maker> Makers() {
  return {
      {"greedy",
       [](uint64_t seed) {
         return std::make_unique<PolicyScheduler>(
             std::make_unique<scheduling::GreedyPolicy>(scheduling::GreedyOptions()), seed);
       }},
      {"optimus", [](uint64_t) { return std::make_unique<Optimus>(); }},
      {"pollux", [](uint64_t seed) { return MakePollux(pollux::Variant::kOsdi, seed); }},
      {"pollux-master", [](uint64_t seed) { return MakePollux(pollux::Variant::kMaster, seed); }},
      {"sia",
       [](uint64_t seed) {
         return std::make_unique<PolicyScheduler>(
             std::make_unique<scheduling::sia::SiaPolicy>(scheduling::sia::SiaOptions()), seed,
             /*knows_gpu_types=*/true);
       }},
      {"tiresias", [](uint64_t) { return std::make_unique<Tiresias>(); }},
  };
}

}  // namespace

std::string SchedulerNames() {
  return absl::StrJoin(Makers(), ", ", [](std::string* out, const auto& maker) { out->append(maker.first); });
}

absl::StatusOr<std::unique_ptr<Scheduler>> MakeScheduler(absl::string_view name, uint64_t seed) {
  const std::map<std::string, Maker> makers = Makers();
  const auto found = makers.find(std::string(name));
  if (found == makers.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("policy: there is no policy \"", name, "\"; choose one of ", SchedulerNames()));
  }
  return found->second(seed);
}

}  // namespace adaptdl::simulator
