#include "libs/elastic/control/control_loader.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "libs/base/shared_library.h"

namespace adaptdl::elastic {

absl::StatusOr<std::unique_ptr<ControlPlane>> LoadGrpcControlPlane(const GrpcControlPlaneOptions& options,
                                                                   const std::string& library) {
  using Factory = ControlPlane*(const GrpcControlPlaneOptions*);
  const absl::StatusOr<SharedLibrary> opened = SharedLibrary::Open(
      library.empty() ? LibraryPlaces("libadaptdl_control.so") : std::vector<std::string>{library},
      "put it beside the program or into ../lib, or set ADAPTDL_CONTROL_LIBRARY to its path");
  if (!opened.ok()) return opened.status();
  const absl::StatusOr<Factory*> factory = opened->Find<Factory>("AdaptdlCreateControlPlane");
  if (!factory.ok()) return factory.status();
  return std::unique_ptr<ControlPlane>((*factory)(&options));
}

}  // namespace adaptdl::elastic
