// Asks a server for its health (grpc.health.v1). Thread-safe.

#ifndef ADAPTDL_CLI_HEALTH_CHECK_H_
#define ADAPTDL_CLI_HEALTH_CHECK_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/rpc/security.h"

namespace adaptdl::cli {

// "SERVING", "NOT_SERVING" and so on. `service`: full name, empty for the server as a whole. UNAVAILABLE: no
// server there; NOT_FOUND: it has no such service.
absl::StatusOr<std::string> CheckHealth(const std::string& address, const rpc::ClientSecurity& security,
                                        const std::string& service, absl::Duration timeout);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_HEALTH_CHECK_H_
