#include "libs/device/device_loader.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/shared_library.h"

namespace adaptdl::device {
namespace {

const absl::StatusOr<const DevicePlugin*>& ThePlugin() {
  static const auto* const plugin = new absl::StatusOr<const DevicePlugin*>([] {
    const char* const library = std::getenv("ADAPTDL_CUDA_LIBRARY");  // NOLINT(concurrency-mt-unsafe)
    return OpenDevicePlugin(library == nullptr ? "" : library);
  }());
  return *plugin;
}

}  // namespace

absl::StatusOr<const DevicePlugin*> OpenDevicePlugin(const std::string& library) {
  const absl::StatusOr<SharedLibrary> opened = SharedLibrary::Open(
      library.empty() ? LibraryPlaces("libadaptdl_cuda.so") : std::vector<std::string>{library},
      "build it with -DADAPTDL_CUDA=ON, and put it beside the program or into ../lib, or set "
      "ADAPTDL_CUDA_LIBRARY "
      "to its path");
  if (!opened.ok()) return absl::FailedPreconditionError(opened.status().message());
  const auto function = opened->Find<DevicePluginFunction>(kDevicePluginSymbol);
  if (!function.ok()) return absl::FailedPreconditionError(function.status().message());
  const DevicePlugin* const plugin = (*function)();
  if (plugin->build == DevicePluginBuild()) return plugin;
  return absl::FailedPreconditionError(
      absl::StrCat(opened->path(), " is of another build (", plugin->build, ") than this program (",
                   DevicePluginBuild(), "); build both from the same sources, with the same tools"));
}

absl::StatusOr<int> CountCudaDevices() {
  const auto& plugin = ThePlugin();
  if (!plugin.ok()) return plugin.status();
  return (*plugin)->count();
}

absl::StatusOr<Device*> CudaDeviceAt(int index) {
  const auto& plugin = ThePlugin();
  if (!plugin.ok()) return plugin.status();
  return (*plugin)->at(index);
}

}  // namespace adaptdl::device
