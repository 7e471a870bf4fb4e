#include "services/worker/gpus.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace adaptdl::worker {
namespace {

using Devices = std::vector<GpuDevice>;

constexpr size_t kPrefixBytes = 4;  // "GPU-", "MIG-"

std::vector<std::string> UuidsOf(const Devices& devices) {
  std::vector<std::string> names;
  for (const GpuDevice& device : devices) names.push_back(device.uuid);
  return names;
}

template <typename Predicate>
Devices Those(const Devices& devices, const Predicate& predicate) {
  Devices those;
  std::copy_if(devices.begin(), devices.end(), std::back_inserter(those), predicate);
  return those;
}

// The devices that an entry of CUDA_VISIBLE_DEVICES stands for. None: it stands for nothing, or not for one.
Devices Resolve(const Devices& devices, absl::string_view entry) {
  int index = 0;
  if (absl::SimpleAtoi(entry, &index)) {
    return Those(devices, [&](const GpuDevice& device) { return device.index == index; });
  }
  const bool named = absl::StartsWith(entry, "GPU-") || absl::StartsWith(entry, "MIG-");
  if (!named || entry.size() == kPrefixBytes) return {};
  std::set<std::string> meant;
  for (const GpuDevice& device : devices) {
    for (const std::string& name : {device.uuid, device.gpu}) {
      if (absl::StartsWith(name, entry)) meant.insert(name);
    }
  }
  if (meant.size() > 1 && meant.count(std::string(entry)) > 0) meant = {std::string(entry)};
  if (meant.size() != 1) return {};
  return Those(devices, [&](const GpuDevice& device) {
    return device.uuid == *meant.begin() || device.gpu == *meant.begin();
  });
}

Devices SelectVisible(const Devices& devices, absl::string_view visible, GpuInventory* inventory) {
  Devices selected;
  for (absl::string_view entry : absl::StrSplit(visible, ',', absl::SkipWhitespace())) {
    entry = absl::StripAsciiWhitespace(entry);
    if (entry == "-1" || entry == "NoDevFiles") break;  // what people write for "no more"
    const Devices meant = Resolve(devices, entry);
    if (meant.empty()) {
      inventory->warnings.push_back(absl::StrCat(
          "CUDA_VISIBLE_DEVICES=\"", visible, "\": \"", entry,
          "\" is no GPU of this machine, or stands for several; it and what follows is not offered, as "
          "CUDA would not show it either"));
      break;
    }
    inventory->other_names[std::string(entry)] = UuidsOf(meant);
    for (const GpuDevice& device : meant) {
      const bool known = std::any_of(selected.begin(), selected.end(),
                                     [&](const GpuDevice& other) { return other.uuid == device.uuid; });
      if (!known) selected.push_back(device);
    }
  }
  return selected;
}

// The type to offer.
std::string ChooseType(const Devices& devices, const std::string& type) {
  std::map<std::string, int> counts;
  for (const GpuDevice& device : devices) ++counts[device.type];
  if (counts.count(type) > 0) return type;
  const GpuDevice* most = &devices.front();
  for (const GpuDevice& device : devices) {
    if (counts[device.type] > counts[most->type]) most = &device;
  }
  return most->type;
}

}  // namespace

GpuInventory SelectGpus(const FoundGpus& found, const char* visible, const std::string& type) {
  GpuInventory inventory;
  inventory.problems = found.problems;
  for (const GpuDevice& device : found.devices) {
    inventory.other_names[absl::StrCat(device.index)].push_back(device.uuid);
  }
  inventory.devices = visible == nullptr ? found.devices : SelectVisible(found.devices, visible, &inventory);
  if (inventory.devices.empty()) return inventory;
  const bool renamed =
      !type.empty() && std::none_of(inventory.devices.begin(), inventory.devices.end(),
                                    [&](const GpuDevice& device) { return device.type == type; });
  inventory.type = renamed ? type : ChooseType(inventory.devices, type);
  if (renamed) return inventory;
  const auto is_other = [&](const GpuDevice& device) { return device.type != inventory.type; };
  for (const GpuDevice& device : Those(inventory.devices, is_other)) {
    inventory.warnings.push_back(absl::StrCat(
        device.uuid, " (", device.type, ") is not offered: a node has GPUs of one type, and this one's is ",
        inventory.type,
        "; --gpu-type chooses another, and a second worker with its own CUDA_VISIBLE_DEVICES offers the "
        "rest"));
  }
  std::erase_if(inventory.devices, is_other);
  return inventory;
}

GpuInventory DeclareGpus(int count, const std::string& type) {
  GpuInventory inventory;
  inventory.type = type;
  for (int index = 0; index < count; ++index) {
    const std::string name = absl::StrCat(index);
    inventory.devices.push_back({.uuid = name, .type = type, .gpu = name, .index = index});
  }
  return inventory;
}

}  // namespace adaptdl::worker
