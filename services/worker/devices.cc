#include "services/worker/devices.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adaptdl::worker {

absl::StatusOr<std::vector<std::string>> DeviceTable::Take(const std::string& owner, int count) {
  std::vector<std::string> taken;
  for (const std::string& device : devices_) {
    if (static_cast<int>(taken.size()) >= count) break;
    if (!owners_.contains(device)) taken.push_back(device);
  }
  if (static_cast<int>(taken.size()) < count) {
    return absl::ResourceExhaustedError(absl::StrCat("the replica asks for ", count, " GPUs, of the node's ",
                                                     devices_.size(), " only ", taken.size(), " are free"));
  }
  for (const std::string& device : taken) owners_[device] = owner;
  return taken;
}

void DeviceTable::Restore(const std::string& owner, const std::vector<std::string>& devices) {
  for (const std::string& device : devices) owners_[device] = owner;
}

void DeviceTable::Release(const std::string& owner) {
  std::erase_if(owners_, [&](const auto& entry) { return entry.second == owner; });
}

}  // namespace adaptdl::worker
