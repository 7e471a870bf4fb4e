#include "libs/rpc/status_code.h"

namespace adaptdl::rpc {

grpc::StatusCode CodeOf(const grpc::Status& status) {
  const bool broken =
      status.error_code() == grpc::StatusCode::UNKNOWN && status.error_message() == "Stream removed";
  return broken ? grpc::StatusCode::UNAVAILABLE : status.error_code();
}

}  // namespace adaptdl::rpc
