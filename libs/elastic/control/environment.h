// The environment variables of a replica (docs/training-library.md lists them).

#ifndef ADAPTDL_LIBS_ELASTIC_CONTROL_ENVIRONMENT_H_
#define ADAPTDL_LIBS_ELASTIC_CONTROL_ENVIRONMENT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace adaptdl::elastic {

struct Environment {
  // "namespace/name"; split here. Empty when standalone.
  std::string job_namespace;
  std::string job;
  std::string checkpoint_path;
  // Another job's checkpoints, to begin with. Empty: it begins anew.
  std::string start_path;
  std::string share_path;
  // Where rank 0 leaves files for TensorBoard. Empty: nowhere.
  std::string tensorboard_logdir;
  int replica_rank = 0;
  int num_replicas = 1;
  int num_nodes = 1;
  int num_restarts = 0;
  // GPUs that this replica was given. Negative: nobody said.
  int num_gpus = -1;
  // Standalone with several replicas: where rank 0 serves the rendezvous.
  std::string master_host;
  int master_port = 0;
  // Empty: standalone.
  std::string supervisor_address;
  // Empty: the supervisor does not use TLS.
  std::string supervisor_ca;
  // The same as text in PEM, where there is no file.
  std::string supervisor_ca_pem;
  // Empty: the usual one.
  std::string supervisor_tls_name;
  std::string replica_id;
  int64_t group = 0;
  std::string group_token;
  // File with a token that proves who this replica is, until it is told its group's. It may be replaced.
  std::string identity_token_file;
  // What the replica's launch is part of, as a W3C traceparent. Empty: it is not traced.
  std::string traceparent;
  std::string replica_host;
  std::string control_library;
  absl::Duration checkpoint_period = absl::Seconds(30);
  // Optimiser steps between periodic checkpoints, in place of the time between them. 0: the time counts.
  int64_t checkpoint_period_steps = 0;
  // Complete checkpoints that stay.
  int checkpoint_keep = 2;
  absl::Duration hints_period = absl::Seconds(30);
  absl::Duration collective_timeout = absl::Minutes(5);
  // Least time after which a replica that does nothing hangs, if others wait for it.
  absl::Duration hang_timeout = absl::Seconds(10);
  // Whether malloc keeps what the program frees (KeepFreedMemory).
  bool keep_freed_memory = true;
  // Longest wait for a new group after a replica was lost.
  absl::Duration plan_timeout = absl::Minutes(1);

  bool supervised() const { return !supervisor_address.empty(); }
};

using GetVariable = std::function<std::optional<std::string>(const std::string& name)>;

// From the process's environment.
std::optional<std::string> GetFromProcess(const std::string& name);

// Each variable by itself. INVALID_ARGUMENT names one with a wrong value.
absl::StatusOr<Environment> ReadVariables(const GetVariable& get);

// INVALID_ARGUMENT names a variable with a wrong value, or one that is missing.
absl::StatusOr<Environment> ReadEnvironment(const GetVariable& get);

// How a program asked for its group; what is left out comes from the environment.
struct ProcessGroup {
  // Of device buffers: "nccl", "gloo", or empty: as it suits the replica's device.
  std::string backend = {};
  // Of rank 0: "host:port" or "tcp://host:port". Empty: left out.
  std::string address = {};
  // 0: left out.
  int world_size = 0;
  // Negative: left out.
  int rank = -1;
};

// INVALID_ARGUMENT: as above, or `group` is wrong or contradicts the supervisor.
absl::StatusOr<Environment> ReadEnvironment(const GetVariable& get, const ProcessGroup& group);

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_CONTROL_ENVIRONMENT_H_
