// The one symbol that libadaptdl_control.so shows.

#include "libs/base/say.h"
#include "libs/elastic/control/control_plane.h"
#include "libs/elastic/control/grpc/grpc_control_plane.h"

extern "C" __attribute__((visibility("default"))) adaptdl::elastic::ControlPlane* AdaptdlCreateControlPlane(
    const adaptdl::elastic::GrpcControlPlaneOptions* options) {
  adaptdl::SetListener(options->say);
  return adaptdl::elastic::CreateGrpcControlPlane(*options).release();
}
