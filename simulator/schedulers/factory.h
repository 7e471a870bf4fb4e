// Schedulers by name. Thread-safe.

#ifndef ADAPTDL_SIMULATOR_SCHEDULERS_FACTORY_H_
#define ADAPTDL_SIMULATOR_SCHEDULERS_FACTORY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "simulator/policies/policies.h"
#include "simulator/schedulers/policy_scheduler.h"
#include "simulator/schedulers/scheduler.h"

namespace adaptdl::simulator {

// All names, joined by ", ": those of `policies`, and of the schedulers that are no allocation policies.
std::string SchedulerNames(const Policies& policies);

struct SchedulerOptions {
  // Which allocation policies there are.
  Policies policies = PoliciesWithoutSolver();
  uint64_t seed = 1;
  RemainingWork remaining_work = RemainingWork::kKnown;
  // See PolicyScheduler::Options.
  std::map<std::string, pastwork::PastWork> past = {};
};

// INVALID_ARGUMENT: no such scheduler.
absl::StatusOr<std::unique_ptr<Scheduler>> MakeScheduler(absl::string_view name,
                                                         const SchedulerOptions& options);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_SCHEDULERS_FACTORY_H_
