// A supervisor whose cluster is one of Kubernetes (services/supervisor/kubernetes): who leads, where the state is, how
// replicas are reached, and what is watched, made and joined.
//
//   Connect ──▶ AwaitLeadership ──▶ OpenStore ──▶ Supervisor::Create(..., seams()) ──▶ Begin ──▶ Supervisor::Start
//
// It outlives the supervisor, but for End(), which comes before the supervisor's end. Not thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_BACKEND_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_BACKEND_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/kube/access/access.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/session.h"
#include "libs/kube/control/leader_election.h"
#include "libs/kubejobs/pod.h"
#include "services/supervisor/kubernetes/identity/cluster_users.h"
#include "services/supervisor/kubernetes/identity/pod_proof.h"
#include "services/supervisor/kubernetes/jobs/job_watch.h"
#include "services/supervisor/kubernetes/jobs/object_registrar.h"
#include "services/supervisor/kubernetes/logs/kept_logs.h"
#include "services/supervisor/kubernetes/logs/log_keeper.h"
#include "services/supervisor/kubernetes/logs/pod_log_readers.h"
#include "services/supervisor/kubernetes/nodes/node_watch.h"
#include "services/supervisor/kubernetes/pods/checkpoint_claim.h"
#include "services/supervisor/kubernetes/pods/pod_hosts.h"
#include "services/supervisor/kubernetes/pods/pod_launcher.h"
#include "services/supervisor/kubernetes/pods/pod_watch.h"
#include "services/supervisor/kubernetes/pods/replica_sink.h"
#include "services/supervisor/kubernetes/quotas/quota_watch.h"
#include "services/supervisor/kubernetes/store/group_tokens.h"
#include "services/supervisor/kubernetes/store/kube_events.h"
#include "services/supervisor/kubernetes/store/kube_job_store.h"
#include "services/supervisor/kubernetes/store/kube_lease.h"
#include "services/supervisor/supervisor.h"

namespace adaptdl::supervisor {

struct KubernetesOptions {
  kube::AccessOptions access;
  // Of the jobs. Empty: all.
  std::string name_space;
  // Of the Lease, and its name.
  std::string own_namespace = "adaptdl";
  std::string lease_name = "adaptdl-supervisor";
  absl::Duration lease_duration = absl::Seconds(15);
  // The pod that this runs in, in own_namespace, which says by a label whether it leads, so that a Service finds the
  // leader. Empty: it is not labelled.
  std::string own_pod;
  // At least 32 bytes, the same for all supervisors, and nobody else's: the secrets of groups are made of it.
  std::string group_key_file;
  // Where the history is kept, which is lost without harm.
  std::string history_folder;
  kubejobs::PodOptions pods;
  CheckpointClaimOptions claims;
  KeepPods keep_pods = KeepPods::kFailed;
  // Of the output of each replica, beyond its pod. 0: none.
  int64_t keep_log_bytes = 1 << 20;
  // Whom users' tokens are for.
  std::string user_audience = "adaptdl";
  // How long a node may be not ready, a pod may find no room, and an image may not be had.
  absl::Duration node_grace = absl::Seconds(40);
  NodePodsOptions node_pods;
};

class KubernetesBackend {
 public:
  // `end` ends the process: another supervisor leads. The clock outlives it. Errors name the flag or the file.
  static absl::StatusOr<std::unique_ptr<KubernetesBackend>> Connect(
      const KubernetesOptions& options, const Clock* clock, std::function<void(const std::string&)> end);
  ~KubernetesBackend();

  // False: a signal to end has come before.
  absl::StatusOr<bool> AwaitLeadership();
  LeaderLease* lease() { return lease_.get(); }

  // What the cluster keeps of jobs, fenced by the lease. `on_sync_failure`: of the history's disk.
  absl::StatusOr<std::unique_ptr<JobStore>> OpenStore();
  SupervisorSeams seams();
  // Who users are and what they may do, by the cluster's tokens and rules. The backend outlives the guard.
  security::Authorities authorities();
  // Follows the cluster from now on, once all that there is was told.
  absl::Status Begin(Supervisor* supervisor);
  // Nothing follows from the cluster any more, and nothing is done to it.
  void End();

 private:
  // Hands on what pods say to the managers, when there are some.
  class Sink;
  // What one session is for, as kube::SessionOptions has it.
  struct Calls {
    absl::Duration patience;
    absl::Duration timeout;
    absl::Duration period = kube::SessionOptions().period;
    std::function<bool()> may_change = nullptr;
  };

  KubernetesBackend(const KubernetesOptions& options, const Clock* clock,
                    std::function<void(const std::string&)> end);
  absl::StatusOr<std::unique_ptr<kube::Session>> MakeSession(const Calls& calls) const;
  absl::Status MakeClients();
  absl::Duration RenewPeriod() const { return options_.lease_duration / 5; }
  absl::StatusOr<kube::Json> MakePod(const std::string& node_id, const v1::LaunchReplica& launch,
                                     const std::string& claim) const;
  // Says on our own pod whether we lead.
  absl::Status LabelOwnPod(const kube::Client& client, bool leads) const;
  // Whether the pod has a name that no replica of its job has, or is in another namespace: whoever may make pods may make them
  // look like replicas of others.
  bool IsForeign(const Pod& pod) const;
  // Whether the pod is of a job that is there, in its namespace.
  bool IsKnown(const Pod& pod) const;
  std::unique_ptr<LogKeeper> MakeLogKeeper();
  void TellOfStorage(const std::string& job_uid, const std::string& why);
  std::unique_ptr<QuotaWatch> MakeQuotaWatch();
  void Step();

  const KubernetesOptions options_;
  const Clock& clock_;
  const std::function<void(const std::string&)> end_;
  // Of this process, as the Lease has it.
  const std::string identity_;
  std::optional<GroupTokens> tokens_;
  // Of the election, of the state, of events, of users, of logs, and of all else: none holds another up.
  std::unique_ptr<kube::Session> election_session_;
  std::unique_ptr<kube::Session> store_session_;
  std::unique_ptr<kube::Session> events_session_;
  std::unique_ptr<kube::Session> users_session_;
  std::unique_ptr<kube::Session> logs_session_;
  std::unique_ptr<kube::Session> session_;
  std::unique_ptr<kube::Client> election_client_;
  std::unique_ptr<kube::Client> store_client_;
  std::unique_ptr<kube::Client> events_client_;
  std::unique_ptr<kube::Client> users_client_;
  std::unique_ptr<kube::Client> logs_client_;
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<kube::LeaderElection> election_;
  std::unique_ptr<KubeLease> lease_;
  std::unique_ptr<JobStore> history_;
  std::unique_ptr<KubeEvents> events_;
  KubeJobStore* store_ = nullptr;  // The supervisor's.
  Core* core_ = nullptr;           // The supervisor's; null before Begin() and after End().
  std::unique_ptr<Sink> sink_;
  std::unique_ptr<KeptLogs> kept_logs_;    // Null: nothing is kept.
  std::unique_ptr<LogKeeper> log_keeper_;  // Likewise.
  std::unique_ptr<PodWatch> pod_watch_;
  std::unique_ptr<PodHosts> hosts_;
  std::unique_ptr<PodLogReaders> log_readers_;
  std::unique_ptr<CheckpointClaims> claims_;
  std::unique_ptr<PodLauncher> launcher_;
  std::unique_ptr<PodProof> proof_;
  std::unique_ptr<ObjectRegistrar> registrar_;
  std::unique_ptr<ObservedNodes> nodes_;
  std::unique_ptr<NodeWatch> node_watch_;
  std::unique_ptr<JobWatch> job_watch_;
  std::unique_ptr<QuotaWatch> quota_watch_;
  // Held by each step, which is another thread's: End() comes between two.
  Mutex stepping_;
  // Used in Step() only.
  absl::Time next_claims_ = absl::InfinitePast();
  absl::Time next_log_sweep_ = absl::InfinitePast();
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_BACKEND_H_
