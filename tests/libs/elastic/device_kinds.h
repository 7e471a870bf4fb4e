// The devices that the training library is tested on.

#ifndef ADAPTDL_TESTS_LIBS_ELASTIC_DEVICE_KINDS_H_
#define ADAPTDL_TESTS_LIBS_ELASTIC_DEVICE_KINDS_H_

#include <memory>
#include <string>
#include <vector>

#include "libs/base/mutex.h"
#include "libs/device/cpu_device.h"
#include "libs/device/device_loader.h"
#include "libs/device/guarded_device.h"

namespace adaptdl::elastic {

enum class DeviceKind { kCpu, kGuarded, kCuda };

// Those of this machine.
inline std::vector<DeviceKind> DeviceKinds() {
  std::vector<DeviceKind> kinds = {DeviceKind::kCpu, DeviceKind::kGuarded};
  if (device::CountCudaDevices().value_or(0) > 0) kinds.push_back(DeviceKind::kCuda);
  return kinds;
}

inline std::string NameOf(DeviceKind kind) {
  if (kind == DeviceKind::kCpu) return "Cpu";
  return kind == DeviceKind::kGuarded ? "Guarded" : "Cuda";
}

// The CPU, the first GPU, or a guarded device of its own. Test programs keep the latter for good, as a GPU is there for
// good.
inline device::Device& MakeDevice(DeviceKind kind) {
  if (kind == DeviceKind::kCpu) return device::Cpu();
  if (kind == DeviceKind::kCuda) return *device::CudaDeviceAt(0).value();
  static Mutex mutex;
  static auto* const all = new std::vector<std::unique_ptr<device::GuardedDevice>>();
  MutexLock lock(&mutex);
  return *all->emplace_back(std::make_unique<device::GuardedDevice>());
}

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_TESTS_LIBS_ELASTIC_DEVICE_KINDS_H_
