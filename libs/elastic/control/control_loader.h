// Opens libadaptdl_control.so, which speaks gRPC, apart from everything else in the process.
//
// A prebuilt LibTorch carries a protobuf of its own; two in one process clash unless their symbols are kept
// apart (libs/base/shared_library.h). The library shows a single symbol.

#ifndef ADAPTDL_LIBS_ELASTIC_CONTROL_CONTROL_LOADER_H_
#define ADAPTDL_LIBS_ELASTIC_CONTROL_CONTROL_LOADER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libs/elastic/control/control_plane.h"

namespace adaptdl::elastic {

// Looks for the library at `library` if that is not empty ($ADAPTDL_CONTROL_LIBRARY), else where ours are.
// NOT_FOUND names these places. Thread-safe.
absl::StatusOr<std::unique_ptr<ControlPlane>> LoadGrpcControlPlane(const GrpcControlPlaneOptions& options,
                                                                   const std::string& library);

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_CONTROL_CONTROL_LOADER_H_
