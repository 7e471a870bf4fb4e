// How a machine of a cloud runs the worker, and the shell script that makes it so.
//
// The script is what cloud-init runs at the machine's first start (Amazon), or the guest agent at each (Google). It writes a start script and a systemd unit, which run at
// each start: they keep replicas from the metadata service, mount file systems, ask the metadata service who the machine
// is, and run the worker, as a container or as a program that the machine's image has. There is nothing secret in it: who may
// start or look at machines of the account can read it. What the worker proves itself by it gets by enrolment.
//
// Replicas run as users of their own (--replica-uids), whom a firewall rule forbids the metadata service: there the machine's
// role could be had. A machine where that rule can't be set runs no worker.
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_MACHINES_WORKER_LAUNCH_H_
#define ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_MACHINES_WORKER_LAUNCH_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace adaptdl::autoscaler {

// Whose machine it is: whom it asks who it is.
enum class MachineCloud { kAws, kGcp };

enum class LaunchKind {
  // By Docker, which the machine's image has.
  kContainer,
  // A program that the machine's image has.
  kBinary,
};

// A file system of the network that is mounted before the worker starts.
struct WorkerMount {
  // What mount(8) calls the device: "fs-123.efs.eu-west-1.amazonaws.com:/".
  std::string source;
  // Absolute path.
  std::string target;
  std::string type = "nfs4";
  // Separated by commas. Empty: none.
  std::string options = {};
};

struct WorkerLaunch {
  MachineCloud cloud = MachineCloud::kAws;
  LaunchKind kind = LaunchKind::kContainer;
  // kContainer: image of the worker.
  std::string image = {};
  // kBinary: absolute path of adaptdl-worker.
  std::string binary = {};
  // "host:port" of the supervisor, or of several, separated by commas, as the machines reach them.
  std::string supervisor = {};
  // Name that the supervisor's certificate must have. Empty: the usual one.
  std::string tls_server_name = {};
  // The authority of the services' certificates, in PEM. Empty only with `insecure`.
  std::string ca_pem = {};
  // Plaintext, without proof of who is who: for tests.
  bool insecure = false;
  // Folder of the jobs' files, the same for all nodes: within a mount. Or what else the worker's --storage-dir takes.
  std::string storage_dir = {};
  // Of the node, with that of its pool.
  std::map<std::string, std::string> labels = {};
  // As the worker's --taint takes them.
  std::vector<std::string> taints = {};
  // Whether the machine may be taken away at short notice.
  bool preemptible = false;
  // Whether the machine has GPUs, which the container is to see.
  bool gpus = false;
  std::vector<WorkerMount> mounts = {};
  // More of the worker's flags.
  std::vector<std::string> arguments = {};
  // Users that replicas run as: the same on all nodes of a cluster.
  std::string replica_uids = "200000-265535";
};

// INVALID_ARGUMENT names the field that does not do.
absl::Status CheckWorkerLaunch(const WorkerLaunch& launch);

// The script. `root`: folder that stands for "/", for tests. INVALID_ARGUMENT: as above, or it is larger than what the cloud takes:
// Amazon 16 KiB, Google 256 KiB.
absl::StatusOr<std::string> MakeUserData(const WorkerLaunch& launch, const std::string& root = "");

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_MACHINES_WORKER_LAUNCH_H_
