// FindGpus(): NVML, the driver's own library, loaded only where it is installed.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/shared_library.h"
#include "services/worker/machine.h"

namespace adaptdl::worker {
namespace {

// The few entry points that are needed; their signatures have been stable since NVML 2.
using NvmlDevice = void*;
constexpr int kNvmlSuccess = 0;

class Nvml {
 public:
  Nvml() {
    if (!library_.ok()) return;  // no driver, hence no GPUs
    const auto init = Find<int()>("nvmlInit_v2");
    ready_ = init != nullptr && init() == kNvmlSuccess;
  }
  ~Nvml() {
    if (const auto shutdown = Find<int()>("nvmlShutdown"); ready_ && shutdown != nullptr) shutdown();
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  int Count() const {
    const auto get_count = Find<int(unsigned*)>("nvmlDeviceGetCount_v2");
    unsigned count = 0;
    return ready_ && get_count != nullptr && get_count(&count) == kNvmlSuccess ? static_cast<int>(count) : 0;
  }

  std::string Name(int index) const {
    const auto get_device = Find<int(unsigned, NvmlDevice*)>("nvmlDeviceGetHandleByIndex_v2");
    const auto get_name = Find<int(NvmlDevice, char*, unsigned)>("nvmlDeviceGetName");
    NvmlDevice device = nullptr;
    char name[96] = "";
    if (get_device == nullptr || get_name == nullptr || get_device(index, &device) != kNvmlSuccess ||
        get_name(device, name, sizeof(name)) != kNvmlSuccess) {
      return "";
    }
    return name;
  }

 private:
  template <typename Function>
  Function* Find(const char* name) const {
    return library_.ok() ? library_->Find<Function>(name).value_or(nullptr) : nullptr;
  }

  const absl::StatusOr<SharedLibrary> library_ =
      SharedLibrary::Open({"libnvidia-ml.so.1"}, "install NVIDIA's driver");
  bool ready_ = false;
};

}  // namespace

GpuInventory FindGpus(const char* visible_devices) {
  const Nvml nvml;
  const int count = nvml.Count();
  GpuInventory gpus;
  if (count == 0) return gpus;
  gpus.type = nvml.Name(0);
  if (visible_devices == nullptr) {
    for (int index = 0; index < count; ++index) gpus.devices.push_back(absl::StrCat(index));
    return gpus;
  }
  for (absl::string_view device : absl::StrSplit(visible_devices, ',', absl::SkipWhitespace())) {
    device = absl::StripAsciiWhitespace(device);
    // CUDA takes everything behind an invalid entry for invisible.
    if (device == "-1" || device == "NoDevFiles") break;
    gpus.devices.emplace_back(device);
  }
  if (gpus.devices.empty()) gpus.type.clear();
  return gpus;
}

}  // namespace adaptdl::worker
