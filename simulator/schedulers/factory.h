// Schedulers by name. Thread-safe.

#ifndef ADAPTDL_SIMULATOR_SCHEDULERS_FACTORY_H_
#define ADAPTDL_SIMULATOR_SCHEDULERS_FACTORY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "simulator/schedulers/scheduler.h"

namespace adaptdl::simulator {

// All names, joined by ", ".
std::string SchedulerNames();

struct SchedulerOptions {
  uint64_t seed = 1;
  // Whether jobs tell how much work is left, once they have measured themselves.
  bool remaining_work_known = true;
};

// INVALID_ARGUMENT: no such scheduler.
absl::StatusOr<std::unique_ptr<Scheduler>> MakeScheduler(absl::string_view name,
                                                         const SchedulerOptions& options);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_SCHEDULERS_FACTORY_H_
