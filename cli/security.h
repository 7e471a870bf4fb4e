// How the command finds out whom to trust and who it is. Thread-safe.

#ifndef ADAPTDL_CLI_SECURITY_H_
#define ADAPTDL_CLI_SECURITY_H_

#include <string>

#include "absl/status/statusor.h"
#include "cli/context.h"
#include "libs/rpc/security.h"

namespace adaptdl::cli {

// For the server at `address`: from the flags, else the environment, else the local cluster's record if it
// is one of its servers. A token of the local cluster goes to no other. INVALID_ARGUMENT: a file can't be
// used; the text says which and why.
absl::StatusOr<rpc::ClientSecurity> FindSecurity(const Context& context, const std::string& address);

// The token in a file that holds nothing else.
absl::StatusOr<std::string> ReadToken(const std::string& path);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_SECURITY_H_
