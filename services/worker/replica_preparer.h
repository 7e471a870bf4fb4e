// Makes all that the shim of a replica needs: the job's folders in the storage, the replica's own with its
// launch.json, its control group, the folder of its virtual environment, and the one that comes with the job.
//
// Waits for disks, and for the supervisor where a folder comes with the job. Thread-safe, but for two calls about the same replica.

#ifndef ADAPTDL_SERVICES_WORKER_REPLICA_PREPARER_H_
#define ADAPTDL_SERVICES_WORKER_REPLICA_PREPARER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adaptdl/v1/node_service.pb.h"
#include "services/worker/code/job_code.h"
#include "services/worker/job_storage.h"
#include "services/worker/python_environments.h"
#include "services/worker/replica_process.h"
#include "services/worker/replica_store.h"

namespace adaptdl::worker {

// What replicas on this node are told of it and given by it.
struct NodeSetting {
  std::string node_id;
  // See ReplicaPlace.
  std::string replica_host;
  std::string supervisor_address;
  std::string supervisor_ca = {};
  std::string supervisor_tls_name = {};
  // Of copies of data sets (objects/data_cache.h).
  std::string data_folder = {};
  // What replicas get of the worker's own environment.
  Environment inherited_environment = {};
  // Most processes and threads that a job may have on this node, where it has an account or a control group
  // of its own. 0: no bound.
  int64_t max_processes = 0;
  // Where the replicas' control groups are made (shim/cgroup.h). Empty: there are none.
  std::string cgroup_base = {};
  // See ReplicaPlace.
  std::string netperf_program = {};
};

class ReplicaPreparer {
 public:
  // All must outlive it.
  ReplicaPreparer(NodeSetting node, const JobStorage* storage, ReplicaStore* store,
                  PythonEnvironments* python, JobCode* code)
      : node_(std::move(node)), storage_(storage), store_(store), python_(python), code_(code) {}

  const NodeSetting& node() const { return node_; }

  struct Outcome {
    absl::Status status;
    // Whose fault it is when the status is not OK.
    Cause cause = Cause::kUnknown;
    // The control group that was made. Empty: none was.
    std::string cgroup = {};
  };
  // Who looks on. `fetching` hears when the folder that comes with the job is waited for, which may take long, and when that
  // is over. `wanted` says whether the replica still is.
  struct Observer {
    std::function<void(bool)> fetching = [](bool) {};
    std::function<bool()> wanted = [] { return true; };
  };
  Outcome Prepare(const v1::LaunchReplica& launch, const std::vector<std::string>& devices,
                  const Observer& observer) const;

 private:
  // The folder that comes with the job; empty if none does.
  absl::Status PrepareCode(const v1::LaunchReplica& launch, const std::optional<Account>& account,
                           const Observer& observer, std::string* folder, Cause* cause) const;
  // The control group's folder; empty if there are none.
  absl::StatusOr<std::string> PrepareCgroup(const v1::LaunchReplica& launch) const;

  // Where the job's data sets are, if it asked for some: they are there.
  absl::Status SetDataPlace(const v1::LaunchReplica& launch, ReplicaPlace* place) const;

  // None: the job asked for no virtual environment.
  absl::StatusOr<std::optional<PythonPlace>> PreparePython(const v1::LaunchReplica& launch,
                                                           const std::optional<Account>& account) const;

  const NodeSetting node_;
  const JobStorage* const storage_;
  ReplicaStore* const store_;
  PythonEnvironments* const python_;
  JobCode* const code_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_REPLICA_PREPARER_H_
