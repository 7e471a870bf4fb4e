// A cluster of the real programs on this machine, under a test's control: each can be killed and started
// again.
//
//   TestCluster cluster({.workers = 2});
//   ASSERT_TRUE(cluster.Start().ok());
//   cluster.Submit(cluster.MnistJob("a", {"--epochs", "2"}));
//   cluster.WaitForJob("a", Finished, absl::Minutes(5));
//
// All state is in a temporary folder, which a failed test leaves for inspection (its path is in the test's
// output). Thread-safety: one thread at a time; calls to the supervisor may come from others.

#ifndef ADAPTDL_TESTS_INTEGRATION_TEST_CLUSTER_H_
#define ADAPTDL_TESTS_INTEGRATION_TEST_CLUSTER_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "adaptdl/v1/capacity_service.grpc.pb.h"
#include "adaptdl/v1/job_service.grpc.pb.h"
#include "adaptdl/v1/node_service.grpc.pb.h"
#include "adaptdl/v1/scheduling_service.grpc.pb.h"
#include "libs/rpc/security.h"
#include "tests/integration/process.h"

namespace adaptdl::integration {

struct TestClusterOptions {
  // Workers that Start() starts, with node ids "node-0", "node-1", ..., and cores that each of them offers.
  int workers = 2;
  int cpus = 1;
  // Whether Start() starts the allocator. Without it the test allocates by Allocate().
  bool allocator = true;
  // More flags of the allocator.
  std::vector<std::string> allocator_flags = {};
  // Its longest time between two rounds.
  absl::Duration allocator_interval = absl::Seconds(5);
  // Whether the autoscaler starts the workers (node ids "local-0", ...) instead of the test; with Kubernetes it looks
  // after the nodes that `autoscaler_flags` say.
  bool autoscaler = false;
  std::vector<std::string> autoscaler_flags = {};
  // Path of the pool file that the autoscaler keeps, in place of `workers`.
  std::string pool_file = {};
  // Time that the shims wait for a worker to come back.
  absl::Duration orphan_timeout = absl::Seconds(30);
  // Whether workers that are told to end give notice and wait until the jobs have moved, and how long at
  // most.
  bool drain_on_terminate = false;
  absl::Duration terminate_timeout = absl::Minutes(2);
  // Longest wait between a failure and the next attempt.
  absl::Duration max_retry_backoff = absl::Seconds(60);
  // Whether each job runs as a user of its own, which takes root.
  bool separate_users = false;
  // Whether the supervisor serves AdaptDL's Python package.
  bool adaptdl_http = false;
  // Whether all talk by TLS, and the test proves who it is by an admin's token. Otherwise in plaintext.
  bool tls = true;
  // Whether the supervisor lets machines in as nodes; with TLS only.
  bool node_authority = false;
  // --gpus of the workers.
  std::string gpus = "0";
  // Host of all but the workers, in the network of the test.
  std::string control_host = "127.0.0.1";
  // Where a worker runs: its host, and the network namespace of that (negative: that of the test). None: on
  // the loopback of the test.
  struct Place {
    std::string host = "127.0.0.1";
    int network = -1;
  };
  std::function<Place(int index)> place_of_worker = nullptr;
  // Whether the workers have one folder for all jobs' files, or each its own.
  bool shared_storage = true;
  // More flags of a worker.
  std::function<std::vector<std::string>(int index)> worker_flags = nullptr;
  // URL of an API server of Kubernetes: then the supervisor is its operator, and there are no workers.
  std::string kubernetes = {};
  // Of the operator: how many there may be (LaunchSupervisor()), and how long a Lease lasts that is not renewed.
  int supervisors = 1;
  absl::Duration election_duration = absl::Seconds(2);
  absl::Duration replica_heartbeat_period = absl::Milliseconds(300);
  // Which ended pods stay.
  std::string keep_pods = "all";
  // More flags of the supervisor.
  std::vector<std::string> supervisor_flags = {};
};

using JobPredicate = std::function<bool(const v1::Job&)>;

// Whether the job has ended, in whichever way.
bool Finished(const v1::Job& job);
// Whether the job runs with so many replicas.
JobPredicate RunningWith(int replicas);
// Whether the job runs in a group later than `group`.
JobPredicate RunningAfterGroup(int64_t group);
// Whether the job has done at least so many optimiser steps.
JobPredicate StepsReached(int64_t steps);

// Last figure of "test accuracy: 97.35 %" in what a program wrote. -1: none.
double LastTestAccuracy(const std::string& log);

class TestCluster {
 public:
  explicit TestCluster(TestClusterOptions options);
  ~TestCluster();

  // Starts everything and waits until all workers are registered.
  absl::Status Start();

  // Start one program, again if it was killed. Programs keep their addresses over a restart.
  absl::Status StartSupervisor();
  // Starts one of several, which need not lead; waits until it does.
  absl::Status LaunchSupervisor(int index);
  absl::Status AwaitSupervisor(int index);
  // Of one that works for Kubernetes: the API server, the key of groups, and where replicas reach it.
  std::vector<std::string> KubernetesFlags() const;
  absl::Status StartAllocator();
  absl::Status StartAutoscaler();
  void StartWorker(int index);
  // Variables, as "NAME=value", for workers that are started from now on.
  void SetWorkerEnvironment(std::vector<std::string> variables) {
    worker_environment_ = std::move(variables);
  }

  Process& supervisor(int index = 0) { return supervisors_[index]; }
  Process& allocator() { return allocator_; }
  Process& autoscaler() { return autoscaler_; }
  Process& worker(int index) { return workers_[index]; }

  // Path of a program of ours.
  std::string Binary(const std::string& name) const;
  const std::string& folder() const { return folder_; }
  std::string storage() const { return folder_ + "/storage"; }
  // Processes of this cluster's replicas whose command line holds `program`. Their shims' command lines do so too, but also
  // hold the cluster's folder.
  std::vector<pid_t> Trainers(const std::string& program) const;
  // Of all of them, separated by commas.
  std::string supervisor_address() const { return absl::StrJoin(supervisor_addresses_, ","); }
  // Of an operator's --group-key-file.
  static std::string GroupKey() { return "a secret of this test alone, of 32 bytes and more"; }
  // Flags by which the command reaches the supervisor: --supervisor and, with TLS, --ca and --token-file.
  std::vector<std::string> CommandFlags() const;
  // Flags by which a service ("allocator") proves who it is; --insecure without TLS.
  std::vector<std::string> ServiceFlags(const std::string& service) const;
  // Path of a file in the folder of certificates and tokens.
  std::string SecurityFile(const std::string& file) const;
  // Of an admin, for calls to a service.
  rpc::ClientSecurity Security(const std::string& service) const;
  // Of the supervisor that was awaited last, as in all calls below.
  v1::JobService::Stub& jobs() { return *stubs_[asked_].jobs; }
  v1::NodeService::Stub& nodes() { return *stubs_[asked_].nodes; }
  v1::SchedulingService::Stub& scheduling() { return *stubs_[asked_].scheduling; }

  // A job that runs `command`; fields may be changed before Submit().
  v1::Job CommandJob(const std::string& name, const std::vector<std::string>& command) const;
  // A job that trains examples/mnist with these arguments.
  v1::Job MnistJob(const std::string& name, const std::vector<std::string>& arguments) const;

  absl::StatusOr<v1::Job> Submit(const v1::Job& job);
  absl::StatusOr<v1::Job> GetJob(const std::string& name);

  // Waits until the predicate holds for the job; follows the supervisor over restarts. DEADLINE_EXCEEDED
  // tells the job's last state.
  absl::StatusOr<v1::Job> WaitForJob(const std::string& name, const JobPredicate& predicate,
                                     absl::Duration timeout);
  absl::Status WaitForNodes(int ready_nodes, absl::Duration timeout);
  // Waits until the predicate holds for the node.
  absl::StatusOr<v1::Node> WaitForNode(const std::string& node_id,
                                       const std::function<bool(const v1::Node&)>& predicate,
                                       absl::Duration timeout);

  // Gives the job exactly these nodes, in place of an allocator. Retries while the snapshot changes under it,
  // and while the supervisor is away.
  absl::Status Allocate(const std::string& name, const std::vector<std::string>& node_ids);

  // All that the job's replicas wrote, in order.
  std::string Logs(const std::string& name);
  // Waits until the job's replicas have written this. False: they have not.
  bool WaitForLog(const std::string& name, const std::string& text, absl::Duration timeout);
  std::vector<v1::Event> Events(const std::string& name);
  // Reasons of the job's events, in order.
  std::vector<std::string> EventReasons(const std::string& name);

  // As LastTestAccuracy(), of the job's log.
  double TestAccuracy(const std::string& name) { return LastTestAccuracy(Logs(name)); }

 private:
  static std::string SupervisorName(int index);
  absl::StatusOr<std::string> WaitForAddress(const std::string& program, Process& process);
  absl::StatusOr<v1::ClusterSnapshot> Snapshot();
  // Certificates of all services and an admin's token.
  absl::Status MakeCredentials();
  // For calls to the supervisor as the allocator.
  rpc::ClientSecurity AllocatorSecurity() const;

  const TestClusterOptions options_;
  std::string folder_;
  std::vector<std::string> worker_environment_;
  std::string token_;
  std::vector<std::string> supervisor_addresses_;
  std::string allocator_address_;
  std::string autoscaler_address_;
  std::map<int, Process> supervisors_;
  Process allocator_;
  Process autoscaler_;
  std::map<int, Process> workers_;
  struct Stubs {
    std::unique_ptr<v1::JobService::Stub> jobs;
    std::unique_ptr<v1::NodeService::Stub> nodes;
    std::unique_ptr<v1::SchedulingService::Stub> scheduling;
  };
  // Of each supervisor, and which is asked.
  std::vector<Stubs> stubs_;
  std::atomic<int> asked_ = 0;
};

}  // namespace adaptdl::integration

#endif  // ADAPTDL_TESTS_INTEGRATION_TEST_CLUSTER_H_
