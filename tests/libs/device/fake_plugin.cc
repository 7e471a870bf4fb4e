// A library with a device, for tests of how one is opened. STALE: it says that it is of another build.

#include <string>

#include "absl/status/status.h"
#include "libs/device/cpu_device.h"
#include "libs/device/device_plugin.h"
#include "tests/libs/device/named_device.h"

extern "C" const adaptdl::device::DevicePlugin* AdaptdlDevicePlugin() {
  using adaptdl::device::Device;
  static const std::string* const build = new std::string(
#ifdef STALE
      "older"
#else
      adaptdl::device::DevicePluginBuild()
#endif
  );
  static const adaptdl::device::DevicePlugin plugin{.build = build->c_str(),
                                                    .count = []() -> absl::StatusOr<int> { return 1; },
                                                    .at = [](int index) -> absl::StatusOr<Device*> {
                                                      static adaptdl::device::NamedDevice* const device =
                                                          new adaptdl::device::NamedDevice("fake");
                                                      if (index != 0)
                                                        return absl::InvalidArgumentError("there is one");
                                                      return device;
                                                    }};
  return &plugin;
}
