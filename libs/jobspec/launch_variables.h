// What a replica's environment says of its launch, whatever runs it: a process of a node worker, or a pod.
// Pure functions; thread-safe.

#ifndef ADAPTDL_LIBS_JOBSPEC_LAUNCH_VARIABLES_H_
#define ADAPTDL_LIBS_JOBSPEC_LAUNCH_VARIABLES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "adaptdl/v1/node_service.pb.h"

namespace adaptdl::jobspec {

// Names and values, each name once. `supervisor_address`: where the replica reaches the supervisor, "host:port", or
// several with commas between; the first one's host is that of the URL for AdaptDL's Python package.
std::vector<std::pair<std::string, std::string>> LaunchVariables(const v1::LaunchReplica& launch,
                                                                 absl::string_view supervisor_address);

// AdaptDL's port of rank 0, where each replica has an address of its own: each group has another, so that none waits for
// what the one before has left.
int MasterPort(int64_t group);

}  // namespace adaptdl::jobspec

#endif  // ADAPTDL_LIBS_JOBSPEC_LAUNCH_VARIABLES_H_
