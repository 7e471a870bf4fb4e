// The devices that the training library is tested on.

#ifndef ADAPTDL_TESTS_LIBS_ELASTIC_DEVICE_KINDS_H_
#define ADAPTDL_TESTS_LIBS_ELASTIC_DEVICE_KINDS_H_

#include <memory>
#include <string>
#include <vector>

#include "libs/base/mutex.h"
#include "libs/device/cpu_device.h"
#include "libs/device/guarded_device.h"

namespace adaptdl::elastic {

enum class DeviceKind { kCpu, kGuarded };

inline std::string NameOf(DeviceKind kind) { return kind == DeviceKind::kCpu ? "Cpu" : "Guarded"; }

// The CPU, or a guarded device of its own. Test programs keep the latter for good, as a GPU is there for good.
inline device::Device& MakeDevice(DeviceKind kind) {
  if (kind == DeviceKind::kCpu) return device::Cpu();
  static Mutex mutex;
  static auto* const all = new std::vector<std::unique_ptr<device::GuardedDevice>>();
  MutexLock lock(&mutex);
  return *all->emplace_back(std::make_unique<device::GuardedDevice>());
}

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_TESTS_LIBS_ELASTIC_DEVICE_KINDS_H_
