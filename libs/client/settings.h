// Where the cluster is and who this caller is: what is given, else the environment's, else the local
// cluster's, as docs/cli.md says of the command. Thread-safe.

#ifndef ADAPTDL_LIBS_CLIENT_SETTINGS_H_
#define ADAPTDL_LIBS_CLIENT_SETTINGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "adaptdl/client.h"
#include "libs/rpc/security.h"

namespace adaptdl::client {

struct Access {
  // Not empty.
  std::vector<std::string> addresses;
  rpc::ClientSecurity security;
};

// INVALID_ARGUMENT: what is missing or can't be used, and why. A token of the local cluster goes to no other.
absl::StatusOr<Access> FindAccess(const Settings& settings);

}  // namespace adaptdl::client

#endif  // ADAPTDL_LIBS_CLIENT_SETTINGS_H_
