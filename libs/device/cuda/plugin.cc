// The one symbol that libadaptdl_cuda.so shows.

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "libs/base/mutex.h"
#include "libs/device/cuda/cuda_device.h"
#include "libs/device/device_plugin.h"

namespace adaptdl::device::cuda {
namespace {

// Those that were asked for, for the life of the process.
class Devices {
 public:
  absl::StatusOr<Device*> At(int index) {
    MutexLock lock(&mutex_);
    const auto found = devices_.find(index);
    if (found != devices_.end()) return found->second.get();
    absl::StatusOr<std::unique_ptr<CudaDevice>> device = CudaDevice::Create(index);
    if (!device.ok()) return device.status();
    return devices_.emplace(index, *std::move(device)).first->second.get();
  }

 private:
  Mutex mutex_;
  std::map<int, std::unique_ptr<CudaDevice>> devices_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<Device*> DeviceAt(int index) {
  static Devices* const devices = new Devices();
  return devices->At(index);
}

}  // namespace
}  // namespace adaptdl::device::cuda

extern "C" __attribute__((visibility("default"))) const adaptdl::device::DevicePlugin* AdaptdlDevicePlugin() {
  static const std::string* const build = new std::string(adaptdl::device::DevicePluginBuild());
  static const adaptdl::device::DevicePlugin plugin{.build = build->c_str(),
                                                    .count = adaptdl::device::cuda::CountDevices,
                                                    .at = adaptdl::device::cuda::DeviceAt};
  return &plugin;
}
