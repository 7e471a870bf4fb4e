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

// INVALID_ARGUMENT: no such scheduler.
absl::StatusOr<std::unique_ptr<Scheduler>> MakeScheduler(absl::string_view name, uint64_t seed);

}  // namespace adaptdl::simulator

#endif  // ADAPTDL_SIMULATOR_SCHEDULERS_FACTORY_H_
