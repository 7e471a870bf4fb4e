// From a launch order to the process to start: the environment contract of replicas. Pure; thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_REPLICA_PROCESS_H_
#define ADAPTDL_SERVICES_WORKER_REPLICA_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "adaptdl/v1/job.pb.h"
#include "adaptdl/v1/node_service.pb.h"
#include "services/worker/replica_accounts.h"
#include "services/worker/shim/records.h"

namespace adaptdl::worker {

using Environment = std::vector<std::pair<std::string, std::string>>;

// How a program gets into the virtual environment that its job asked for.
struct PythonPlace {
  // Program and arguments that the job's command is to follow.
  std::vector<std::string> command;
  // Group that may see the environments of the namespace. None: they belong to the account.
  std::optional<gid_t> group = std::nullopt;
};

// What the node adds to a launch order.
struct ReplicaPlace {
  std::string checkpoint_path;
  std::string share_path;
  // What the job begins with, which is another job's. Empty: nothing.
  std::string start_path = {};
  // The folder that comes with the job, where it starts. Empty: none does.
  std::string code_path = {};
  std::string node_id;
  // Host at which replicas on other nodes reach this one.
  std::string replica_host;
  // "host:port" of the supervisor.
  std::string supervisor_address;
  // Path of the certificates that the supervisor's is verified with, and the name that it must have. Empty:
  // no TLS.
  std::string supervisor_ca = {};
  std::string supervisor_tls_name = {};
  // GPUs given to the replica, as CUDA_VISIBLE_DEVICES names them.
  std::vector<std::string> devices;
  // Account that the replica runs as. None: the worker's own.
  std::optional<Account> account = std::nullopt;
  // Most processes and threads of that account. 0: no bound.
  int64_t max_processes = 0;
  // Folder of its control group. Empty: none.
  std::string cgroup = {};
  // None: the job asked for no virtual environment.
  std::optional<PythonPlace> python = std::nullopt;
  // Folder of its data sets, and group that may read them. Empty: the job asked for none.
  std::string data_path = {};
  std::optional<gid_t> data_group = std::nullopt;
  // What a job that runs "adaptdl-netperf" runs: this worker's own, whatever is in PATH. Empty: what is in PATH.
  std::string netperf_program = {};
};

// Variables that replicas get from the worker's own environment: PATH, HOME, LANG and such, and `more_names`.
// Never one that begins with ADAPTDL_SERVER_.
Environment InheritedEnvironment(const char* const* environment, const std::vector<std::string>& more_names);

// Bounds of the order: names that are safe in paths, sizes, no NUL in a string. INVALID_ARGUMENT names the
// field.
absl::Status CheckLaunch(const v1::LaunchReplica& launch);

// INVALID_ARGUMENT for what is the job's own mistake: a relative working directory, or no command.
absl::StatusOr<ProcessSpec> MakeProcessSpec(const v1::LaunchReplica& launch, const ReplicaPlace& place,
                                            const Environment& inherited);

// The template's, or 30 s, and at most a day.
absl::Duration TerminationGracePeriod(const v1::ReplicaTemplate& replica_template);

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_REPLICA_PROCESS_H_
