// What a library with devices and the program that opens it at run time (device_loader.h) show each other. Both
// are C++: they must be of one build, which each can tell of the other before it uses anything else.

#ifndef ADAPTDL_LIBS_DEVICE_DEVICE_PLUGIN_H_
#define ADAPTDL_LIBS_DEVICE_DEVICE_PLUGIN_H_

#include <string>

#include "absl/base/config.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/base/version.h"
#include "libs/device/device.h"

namespace adaptdl::device {

// To be raised with every change of DevicePlugin or of Device.
inline constexpr int kDeviceInterface = 1;

// All that has to be the same in both.
inline std::string DevicePluginBuild() {
  return absl::StrCat("version ", Version(), ", device interface ", kDeviceInterface, " with passes of ",
                      sizeof(TensorPass), " bytes, C++ ABI ", __GXX_ABI_VERSION, ", Abseil ",
                      ABSL_LTS_RELEASE_VERSION);
}

struct DevicePlugin {
  // DevicePluginBuild() of the library. Stays the first member for ever.
  const char* build = nullptr;
  absl::StatusOr<int> (*count)() = nullptr;
  // Devices live as long as the process.
  absl::StatusOr<Device*> (*at)(int index) = nullptr;
};

// The one function that such a library shows.
inline constexpr char kDevicePluginSymbol[] = "AdaptdlDevicePlugin";
using DevicePluginFunction = const DevicePlugin*();

}  // namespace adaptdl::device

#endif  // ADAPTDL_LIBS_DEVICE_DEVICE_PLUGIN_H_
