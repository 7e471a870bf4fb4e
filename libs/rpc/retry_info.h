// Errors that say when to try again: google.rpc.RetryInfo, as a payload of absl::Status inside and as a
// detail of the gRPC status (libs/rpc/status.h) outside. Pure functions; thread-safe.

#ifndef ADAPTDL_LIBS_RPC_RETRY_INFO_H_
#define ADAPTDL_LIBS_RPC_RETRY_INFO_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace adaptdl::rpc {

// The error, with the time to wait before the call is made again. An OK status stays as it is.
absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);

// That time, at least zero. None: the error does not say.
std::optional<absl::Duration> RetryDelayOf(const absl::Status& status);

}  // namespace adaptdl::rpc

#endif  // ADAPTDL_LIBS_RPC_RETRY_INFO_H_
