// The worker: one node's end of the cluster, made of its parts.
//
// Not thread-safe: for main() and tests.

#ifndef ADAPTDL_SERVICES_WORKER_WORKER_H_
#define ADAPTDL_SERVICES_WORKER_WORKER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "adaptdl/v1/placement.pb.h"
#include "libs/service/server.h"
#include "services/worker/code/job_code.h"
#include "services/worker/node_enrolment.h"
#include "services/worker/nvml.h"
#include "services/worker/object_storage.h"
#include "services/worker/python_environments.h"
#include "services/worker/replica_accounts.h"

namespace adaptdl::worker {

enum class OnTerminate {
  // Ends and leaves the replicas to the next worker (an upgrade).
  kKeep,
  // Gives notice, lets the supervisor move the replicas, stops what is left near the end of
  // terminate_timeout, and ends when the supervisor knows (a spot reclaim).
  kDrain,
};

struct WorkerOptions {
  service::ServerOptions server;
  // "host:port" of the supervisor, or of several, separated by commas; replicas get the same.
  std::string supervisor = "127.0.0.1:7100";
  // Name that the supervisor's certificate must have.
  std::string tls_server_name;
  // Empty: the machine's name.
  std::string node_id;
  std::string state_dir = "./adaptdl-worker";
  // Shared by all nodes, unless there is an object store. Empty: <state-dir>/storage.
  std::string storage_dir;
  // Where jobs' files are instead, while no replica on this node uses them.
  ObjectStorageOptions object_storage;
  // Cores offered. 0: all.
  double cpus = 0;
  // Bytes of memory offered. 0: all.
  int64_t memory_bytes = 0;
  // "auto", or a number of GPUs to offer whether they are there or not.
  std::string gpus = "auto";
  // Empty: what the driver says. Of several, those of this type are offered.
  std::string gpu_type;
  // NVML's, path or name. With "auto" only.
  std::string nvml_library = kNvmlLibrary;
  // How often the driver is asked how the GPUs are.
  absl::Duration gpu_check_period = absl::Seconds(10);
  std::map<std::string, std::string> labels;
  std::vector<v1::Taint> taints;
  bool preemptible = false;
  // Whether and how the supervisor gives this node its certificate.
  EnrolmentOptions enrolment;
  // Host at which others reach this node. Empty: found out from where the server listens.
  std::string advertise_host;
  // Whose metadata service is asked for notices, and for what the machine is called: "none", "auto", "aws", "gcp" or
  // "azure" (notices/instance_metadata.h).
  std::string instance_metadata = "none";
  // Where it is. Empty: where the cloud has it.
  std::string instance_metadata_url;
  OnTerminate on_terminate = OnTerminate::kKeep;
  // Most time that a drain takes, with the replicas' grace periods.
  absl::Duration terminate_timeout = absl::Minutes(2);
  // TCP ports among which some are kept free for replicas of rank 0 to listen on.
  int first_port = 20000;
  int last_port = 29999;
  // Names of environment variables that replicas get as the worker has them, beyond PATH, HOME and such.
  std::vector<std::string> pass_env;

  // What "adaptdl doctor --bandwidth" runs here. Not there: what replicas find in PATH.
  std::string netperf_program;

  // Of the shims.
  std::string shim_program;
  absl::Duration orphan_timeout = absl::Seconds(60);
  int64_t log_file_bytes = int64_t{10} << 20;
  int log_files = 5;
  // Bounds of the logs that are kept of ended replicas.
  int keep_ended_replicas = 1000;
  int64_t max_log_bytes = int64_t{10} << 30;
  // Of one job's.
  int64_t max_job_log_bytes = int64_t{1} << 30;
  // Virtual environments of Python; an empty folder: <state-dir>/python.
  PythonOptions python;
  // Folders that come with jobs; without names: in the state folder.
  CodeOptions code;
  // Accounts that replicas run as.
  AccountOptions accounts;
  // Most processes and threads of a job on this node, where it has an account or a control group of its own.
  // 0: no bound.
  int64_t max_processes = 16'384;
};

class Worker {
 public:
  // Takes the state folder, finds the replicas that run, serves, and connects. FAILED_PRECONDITION: another
  // worker uses the state folder.
  static absl::StatusOr<std::unique_ptr<Worker>> Start(WorkerOptions options);
  virtual ~Worker() = default;

  // "host:port" of its services.
  virtual std::string address() const = 0;

  // Blocks until SIGTERM, SIGINT or Shutdown(), and does what on_terminate says.
  virtual void Wait() = 0;
  virtual void Shutdown() = 0;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_WORKER_H_
