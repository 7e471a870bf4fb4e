// Makes, stops and removes the pods that are replicas. Orders go into a queue, from which threads take a pod each:
// orders of one pod are carried out one after the other, and those of different pods at the same time. What the
// API server could not do is tried again, after a pause that grows, for as long as it is wanted.
//
//   Launch       a pod is made. That it is there is as good, if it is our job's. One that can't ever be made is told
//                to the sink as a lost replica, in the API server's words.
//   Stop         the pod is deleted, with its grace period: that pod, and none that came after it under its name.
//                One that waits to be made is not, and is told as lost. Of one that is not there its node is told
//                as a whole, so that what is not there is known to be lost.
//   Acknowledge  our finalizer is taken off, when the pod's output was kept, and the pod deleted unless it is kept.
//
// Nodes need no connection; whether they are ready somebody else knows. Files go with the objects that own them.
//
// Thread-safe; no call waits. Borrows all of its parts. Owns its threads, which its destructor ends: what was not
// done by then, the next leader finds to be done.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_LAUNCHER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_LAUNCHER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/base/clock.h"
#include "libs/kube/client/client.h"
#include "libs/kube/control/work_queue.h"
#include "libs/kube/json/json.h"
#include "services/supervisor/jobs/replica_launcher.h"
#include "services/supervisor/kubernetes/pods/checkpoint_claim.h"
#include "services/supervisor/kubernetes/pods/output_keeper.h"
#include "services/supervisor/kubernetes/pods/pod.h"
#include "services/supervisor/kubernetes/pods/pod_orders.h"
#include "services/supervisor/kubernetes/pods/pod_watch.h"
#include "services/supervisor/kubernetes/pods/replica_sink.h"

namespace adaptdl::supervisor {

// The pod of a replica (kubejobs::MakePod). `claim`: the job's claim for its checkpoints; empty: it has none.
// Errors: of those that CauseOfRefusal() (launch_error.h) blames on somebody, the replica is lost; after others it
// is tried again.
using MakePodFunction = std::function<absl::StatusOr<kube::Json>(
    const std::string& node_id, const v1::LaunchReplica& launch, const std::string& claim)>;

// Which pods stay when their end is stored, until their job goes.
enum class KeepPods { kNone, kFailed, kAll };

struct PodLauncherParts {
  const kube::Client* client = nullptr;
  const Clock* clock = nullptr;
  PodWatch* watch = nullptr;
  ReplicaSink* sink = nullptr;
  CheckpointClaims* claims = nullptr;
  // Null: the output of pods goes with them.
  OutputKeeper* output = nullptr;
  MakePodFunction make_pod = nullptr;
};

struct PodLauncherOptions {
  KeepPods keep = KeepPods::kFailed;
  int threads = 8;
  kube::WorkQueueOptions retries = {.longest_pause = absl::Seconds(30)};
  // Told of each thing that fails and is tried again; on any thread. Null: nobody is.
  std::function<void(const std::string& what, const absl::Status&)> report = nullptr;
};

class PodLauncher final : public ReplicaLauncher {
 public:
  PodLauncher(const PodLauncherParts& parts, PodLauncherOptions options);
  ~PodLauncher() override;

  void Launch(const std::string& node_id, const v1::LaunchReplica& launch) override;
  void Stop(const std::string& node_id, const v1::StopReplica& stop) override;
  void Acknowledge(const std::string& node_id, const std::string& replica_id) override;
  void DeleteJobFiles(const std::string& /*node_id*/, const v1::DeleteJobFiles& /*files*/) override {}
  // Orders wait here for as long as they have to, and no node holds files of a job.
  bool Connected(const std::string& /*node_id*/) const override { return true; }
  void EndSession(const std::string& /*node_id*/, int64_t /*current_session*/,
                  const absl::Status& /*why*/) override {}

  // The output of the pod was kept, or was given up.
  void Reconsider(const std::string& replica_id);

  // Pods of which something is still to be done.
  size_t pending() const { return orders_.size(); }

 private:
  void Run(const std::stop_token& stop);
  // Takes out of the order what was done. An error: why the rest was not.
  absl::Status CarryOut(const std::string& replica_id, PodOrder* order, const std::stop_token& stop);
  absl::Status Make(PodOrder* order, const std::stop_token& stop);
  // The pod, which was made, or was there.
  absl::StatusOr<kube::Json> MakeOrFind(const PodOrder& order, const std::stop_token& stop);
  absl::StatusOr<kube::Json> FindMade(const v1::LaunchReplica& launch, const std::stop_token& stop);
  absl::Status Withdraw(const std::string& replica_id, PodOrder* order);
  absl::Status Delete(const std::string& replica_id, PodOrder* order, const std::stop_token& stop);
  absl::Status Release(const std::string& replica_id, PodOrder* order, const std::stop_token& stop);
  // How long the pod is still to stay for its output.
  absl::Duration Detain(const PodValue& pod) const;
  // Nobody holds the pod on our behalf any more. NOT_FOUND: it is gone.
  absl::Status TakeOffFinalizer(const Pod& pod, const std::stop_token& stop);
  absl::Status TryTakeOffFinalizer(const Pod& pod, const std::stop_token& stop);
  bool IsKept(const Pod& pod) const;
  absl::Status TellLost(const PodOrder& order, v1::EndCause cause, absl::string_view message);

  const PodLauncherParts parts_;
  const PodLauncherOptions options_;
  PodOrders orders_;
  kube::WorkQueue queue_;
  std::vector<std::jthread> threads_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_LAUNCHER_H_
