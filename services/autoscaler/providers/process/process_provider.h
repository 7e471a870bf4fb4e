// Nodes as worker processes on this machine.
//
// Each node has a folder, by which the provider knows it again after its own restart:
//
//   <state-dir>/lock                    held while a provider uses the folder: there is only one
//   <state-dir>/nodes/<node-id>/pid     "<pid> <start time>": the worker; written before the worker begins
//   <state-dir>/nodes/<node-id>/stopping   exists once the worker was told to stop
//   <state-dir>/nodes/<node-id>/worker.log, worker.log.1   its output
//   <state-dir>/nodes/<node-id>/address    its address (--address-file)
//   <state-dir>/nodes/<node-id>/worker/    its own state (--state-dir)
//
// The start time (libs/base/process/process_identity.h) is why another process with a recycled pid is never
// taken for the worker. A node is there while its pid file is. Workers are in sessions of their own and
// outlive the provider; whoever wants to end them without it (`adaptdl cluster down`) ends the processes that
// the pid files name and deletes these files.
//
// Thread-safety: none; one thread at a time.

#ifndef ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_PROCESS_PROCESS_PROVIDER_H_
#define ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_PROCESS_PROCESS_PROVIDER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/process/daemon.h"
#include "libs/base/process/process_identity.h"
#include "libs/rpc/security.h"
#include "services/autoscaler/providers/node_pool_provider.h"

namespace adaptdl::autoscaler {

struct ProcessProviderOptions {
  // Name of the pool, the value of the workers' label.
  std::string pool;
  // See above. Created when missing.
  std::string state_dir;
  // Passed on to the workers: "host:port" of the supervisor, and the folder that all nodes share.
  std::string supervisor;
  std::string storage_dir;
  // How they talk: in plaintext, or by these files, to a supervisor whose certificate has this name.
  bool insecure = false;
  rpc::TlsFiles worker_tls;
  std::string tls_server_name;
  // Path of the program adaptdl-worker.
  std::string worker_binary;
  // Labels and taints of the nodes besides the pool's name, and whether they count as ones that may be taken away.
  std::map<std::string, std::string> labels = {};
  std::vector<std::string> taints = {};
  bool preemptible = false;
  // Cores that each worker offers. At least 1.
  int worker_cpus = 1;
  // Main memory in bytes that each worker offers. 0: what the worker finds, the machine's.
  int64_t worker_memory_bytes = 0;
  std::string log_format = "console";
  std::string log_level = "info";
  // Environment of the workers, "NAME=value". Variables that set flags (ADAPTDL_SERVER_ORPHAN_TIMEOUT, ...)
  // reach them: what this program decides is on their command line, which wins.
  std::vector<std::string> environment;
  // Time between SIGTERM and SIGKILL.
  absl::Duration stop_timeout = absl::Seconds(60);
};

class ProcessProvider final : public NodePoolProvider {
 public:
  // `clock` is not owned. FAILED_PRECONDITION: another provider uses the folder. NOT_FOUND: no such program.
  static absl::StatusOr<std::unique_ptr<ProcessProvider>> Create(const ProcessProviderOptions& options,
                                                                 Clock* clock);
  ~ProcessProvider() override;

  absl::string_view name() const override { return "process"; }
  absl::StatusOr<std::vector<ProvidedNode>> ListNodes() override;
  PoolKind kind() const override { return {{{kPoolLabel, options_.pool}}}; }
  // Ids are "<pool>-<k>", with the smallest k that is free.
  Created CreateNodes(int count, const std::set<std::string>& taken_ids) override;
  absl::Status RestartNode(const std::string& node_id) override;
  absl::Status TerminateNode(const std::string& node_id) override;

 private:
  ProcessProvider(const ProcessProviderOptions& options, Clock* clock, int lock_fd)
      : options_(options), clock_(clock), lock_fd_(lock_fd) {}

  std::string NodesFolder() const;
  std::string NodeFile(const std::string& node_id, absl::string_view file) const;
  // The worker, running or not. NOT_FOUND: there is no such node.
  absl::StatusOr<ProcessIdentity> Worker(const std::string& node_id) const;
  bool IsStopping(const std::string& node_id) const;
  // State of a node that has a pid file; forgets it, and returns false, if it stopped as it was told to.
  bool Inspect(const std::string& node_id, ProvidedNode* node);
  void Forget(const std::string& node_id);
  DaemonOptions WorkerProcess(const std::string& node_id) const;

  const ProcessProviderOptions options_;
  Clock* const clock_;
  const int lock_fd_;
  // When SIGTERM was sent, by node.
  std::map<std::string, absl::Time> stop_times_;
};

}  // namespace adaptdl::autoscaler

#endif  // ADAPTDL_SERVICES_AUTOSCALER_PROVIDERS_PROCESS_PROCESS_PROVIDER_H_
