// The control plane over gRPC. Lives in libadaptdl_control.so; training programs reach it through
// control_loader.h only, so that no gRPC or protobuf symbol of ours meets one of LibTorch's.

#ifndef ADAPTDL_LIBS_ELASTIC_CONTROL_GRPC_GRPC_CONTROL_PLANE_H_
#define ADAPTDL_LIBS_ELASTIC_CONTROL_GRPC_GRPC_CONTROL_PLANE_H_

#include <memory>

#include "libs/elastic/control/control_plane.h"

namespace adaptdl::elastic {

std::unique_ptr<ControlPlane> CreateGrpcControlPlane(const GrpcControlPlaneOptions& options);

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_CONTROL_GRPC_GRPC_CONTROL_PLANE_H_
