// Two supervisors of one state, two allocators and two workers, and an autoscaler for those who want one: all
// the real programs, with their default periods.
//
// Thread-safety: one thread at a time.

#ifndef ADAPTDL_TESTS_INTEGRATION_FAILOVER_FAILOVER_CLUSTER_H_
#define ADAPTDL_TESTS_INTEGRATION_FAILOVER_FAILOVER_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "adaptdl/v1/job_service.grpc.pb.h"
#include "adaptdl/v1/node_service.grpc.pb.h"
#include "tests/integration/process.h"

namespace adaptdl::integration {

class FailoverCluster {
 public:
  FailoverCluster();
  ~FailoverCluster();

  // Starts all, and waits until the first supervisor leads, the second stands by and the workers are there.
  absl::Status Start();
  // The same; `environment` ("supervisor-0", "allocator-1", "node-0", ...) gives each process's settings.
  absl::Status Start(const std::function<std::vector<std::string>(const std::string& program)>& environment);
  // `environment`: NAME=VALUE settings of the process.
  void StartSupervisor(int index, const std::vector<std::string>& environment = {});
  void StartAllocator(int index, const std::vector<std::string>& environment = {});
  void StartWorker(int index, const std::vector<std::string>& environment = {});
  // One that keeps one node, "local-0", which it starts itself. Takes the address of the first allocator.
  void StartAutoscaler(const std::vector<std::string>& environment = {});
  Process& supervisor(int index) { return supervisors_[index]; }
  Process& allocator(int index) { return allocators_[index]; }
  Process& worker(int index) { return workers_[index]; }

  const std::string& folder() const { return folder_; }
  // Where jobs leave their records.
  std::string records() const { return folder_ + "/records"; }
  v1::JobService::Stub& jobs(int supervisor) { return *jobs_[supervisor]; }

  // Waits until `done`, looking often. False: it took too long.
  static bool Await(const std::function<bool()>& done, absl::Duration timeout = absl::Minutes(1));
  // What the program has written: "supervisor-0", "allocator-1", "node-0".
  std::string Log(const std::string& program) const;
  bool AwaitLog(const std::string& program, const std::string& text,
                absl::Duration timeout = absl::Minutes(1)) const;

  // A one-replica job that runs `command`.
  static v1::Job MakeJob(const std::string& name, const std::vector<std::string>& command);
  v1::Job MakeStepJob(const std::string& name) const;
  // At the first of the supervisors that takes it; each attempt is short, and all are the same request.
  bool Submit(const std::vector<int>& supervisors, const v1::Job& job,
              absl::Duration timeout = absl::Minutes(1));
  absl::StatusOr<v1::Job> GetJob(int supervisor, const std::string& name);
  std::vector<v1::Event> Events(int supervisor, const std::string& name);
  std::vector<v1::Node> Nodes(int supervisor);
  int ReadyNodes(int supervisor);

  // Contents of the records of a job's processes, by process id.
  std::map<int64_t, std::string> Records(const std::string& job) const;
  // Number of replicas that workers have launched since the start.
  int Launches() const;
  // Terms of the supervisors that have led, as their logs tell.
  std::vector<int64_t> Terms(int supervisor) const;

 private:
  // The program with these settings, and its log in "<name>.log".
  Process Launch(const std::string& name, const std::vector<std::string>& environment,
                 const std::vector<std::string>& program) const;
  std::string Binary(const std::string& name) const;
  std::string Supervisors() const;

  std::string folder_;
  int ports_[2] = {};
  Process supervisors_[2];
  Process allocators_[2];
  Process workers_[2];
  Process autoscaler_;
  std::unique_ptr<v1::JobService::Stub> jobs_[2];
  std::unique_ptr<v1::NodeService::Stub> nodes_[2];
};

}  // namespace adaptdl::integration

#endif  // ADAPTDL_TESTS_INTEGRATION_FAILOVER_FAILOVER_CLUSTER_H_
