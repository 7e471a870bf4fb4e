// Opens libadaptdl_gloo.so. Inside libs/comm only.

#ifndef ADAPTDL_LIBS_COMM_GLOO_LOADER_H_
#define ADAPTDL_LIBS_COMM_GLOO_LOADER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "libs/comm/transport.h"

namespace adaptdl::comm {

// NOT_FOUND names the places that were looked at; UNAVAILABLE: cannot listen.
absl::StatusOr<std::unique_ptr<Transport>> CreateGlooTransport(const TransportOptions& options);

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_GLOO_LOADER_H_
