#include "services/allocator/node_resources.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "libs/jobspec/limits.h"

namespace adaptdl::allocator {

absl::Status ToResources(const v1::Resources& from, scheduling::Resources* to) {
  const auto set = [&](const std::string& name, int64_t amount) {
    if (amount < 0 || amount > jobspec::kMaxAmount) {
      return absl::InvalidArgumentError(
          absl::StrCat("resource ", name, " is ", amount, "; it must be in [0, ", jobspec::kMaxAmount, "]"));
    }
    if (amount > 0) (*to)[name] = amount;
    return absl::OkStatus();
  };
  absl::Status status = set(scheduling::kCpu, from.cpu_millis());
  if (status.ok()) status = set(scheduling::kMemory, from.memory_bytes());
  if (status.ok()) status = set(scheduling::kGpu, from.gpus());
  for (const auto& [name, amount] : from.extended()) {
    if (status.ok() &&
        (name == scheduling::kCpu || name == scheduling::kMemory || name == scheduling::kGpu)) {
      status =
          absl::InvalidArgumentError(absl::StrCat("extended resource ", name, " has a field of its own"));
    }
    if (status.ok()) status = set(name, amount);
  }
  return status;
}

}  // namespace adaptdl::allocator
