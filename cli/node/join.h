// Makes this machine a node of a cluster: gets its certificate for a join token, writes the settings of its worker, and
// starts that. Not thread-safe.

#ifndef ADAPTDL_CLI_NODE_JOIN_H_
#define ADAPTDL_CLI_NODE_JOIN_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/context.h"

namespace adaptdl::cli {

// Where things are on a machine with the package adaptdl-services.
struct NodePlaces {
  std::string settings = "/etc/adaptdl/worker.env";
  std::string security = "/etc/adaptdl/security/worker";
  std::string state = "/var/lib/adaptdl/worker";
};

struct JoinOptions {
  NodePlaces places;
  // File with the join token; "-": standard input.
  std::string token_file;
  // Empty: the machine's name.
  std::string node_id;
  // "HOST:PORT" that the worker listens on. Empty: the address from which this machine reaches the supervisor, port 7103.
  std::string listen;
  // Empty: as it is set.
  std::string storage;
  bool start = true;
};

absl::StatusOr<int> Join(const Context& context, const JoinOptions& options);

// One line of what is done, for people.
void Tell(const std::string& text);

// PERMISSION_DENIED with the remedy, unless we are root.
absl::Status CheckRoot(absl::string_view what);

// The unit of the worker, as systemctl has it.
inline constexpr char kWorkerUnit[] = "adaptdl-worker.service";

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_NODE_JOIN_H_
