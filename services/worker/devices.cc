#include "services/worker/devices.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace adaptdl::worker {

absl::StatusOr<std::vector<std::string>> DeviceTable::Take(const std::string& owner, int count) {
  std::vector<std::string> taken;
  for (const std::string& device : devices_) {
    if (static_cast<int>(taken.size()) >= count) break;
    if (!owners_.contains(device) && !unfit_.contains(device)) taken.push_back(device);
  }
  if (static_cast<int>(taken.size()) < count) {
    const std::string bad = unfit() == 0 ? "" : absl::StrCat(", and ", unfit(), " do not work");
    return absl::ResourceExhaustedError(absl::StrCat("the replica asks for ", count, " GPUs, of the node's ",
                                                     devices_.size(), " only ", taken.size(), " are free",
                                                     bad));
  }
  for (const std::string& device : taken) owners_[device] = owner;
  return taken;
}

void DeviceTable::Restore(const std::string& owner, const std::vector<std::string>& devices) {
  for (const std::string& name : devices) {
    const auto other = other_names_.find(name);
    const bool known = std::find(devices_.begin(), devices_.end(), name) != devices_.end();
    if (known || other == other_names_.end()) {
      owners_[name] = owner;
    } else {
      for (const std::string& device : other->second) owners_[device] = owner;
    }
  }
}

void DeviceTable::Release(const std::string& owner) {
  std::erase_if(owners_, [&](const auto& entry) { return entry.second == owner; });
}

int DeviceTable::offered() const {
  return static_cast<int>(std::count_if(devices_.begin(), devices_.end(), [&](const std::string& device) {
    return owners_.contains(device) || !unfit_.contains(device);
  }));
}

int DeviceTable::unfit() const {
  return static_cast<int>(std::count_if(devices_.begin(), devices_.end(),
                                        [&](const std::string& device) { return unfit_.contains(device); }));
}

}  // namespace adaptdl::worker
