// A supervisor that takes over a cluster on which many jobs run: a double of the API server that counts what it is asked, hollow
// nodes and pods, and a crowd of played replicas, one connection each, with heartbeats and hints. Nothing is trained.
//
//   ScaleRun run({.jobs = 50});
//   run.Prepare(); run.StartSupervisor(); run.AwaitTakenOver(limit); run.StartReplicas(); run.AwaitReplicas(limit);
//
// What can't be done fails with a status that says what. Thread-safety: one thread at a time.

#ifndef ADAPTDL_TESTS_INTEGRATION_KUBERNETES_SCALE_SCALE_RUN_H_
#define ADAPTDL_TESTS_INTEGRATION_KUBERNETES_SCALE_SCALE_RUN_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bench/load/crowd.h"
#include "bench/load/played_replica.h"
#include "libs/base/mutex.h"
#include "libs/kube/client/client.h"
#include "libs/kube/json/json.h"
#include "tests/integration/test_cluster.h"
#include "tests/kube/double.h"

namespace adaptdl::integration {

struct ScaleOptions {
  int jobs = 50;
  int replicas_per_job = 5;
  int nodes = 10;
  absl::Duration heartbeat_period = absl::Seconds(5);
  absl::Duration hints_period = absl::Seconds(30);
};

// What jobs tell. Thread-safe.
class HintsBoard {
 public:
  // Notes that the job tells it now.
  v1::Hints Tell(const std::string& job);
  // From now on the first `jobs` tell others than all have told before.
  void Change(int jobs);
  // Jobs that have told some since the last ForgetTold().
  int told() const;
  void ForgetTold();

 private:
  mutable Mutex mutex_;
  int changed_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<std::string> told_ ABSL_GUARDED_BY(mutex_);
};

class ScaleRun {
 public:
  explicit ScaleRun(const ScaleOptions& options);
  ~ScaleRun();

  // Ends all processes, for who ends without destructors.
  void Stop();

  // Nodes, jobs that run, and their pods.
  absl::Status Prepare();
  // Returns at once.
  absl::Status StartSupervisor() { return cluster_.LaunchSupervisor(0); }
  // Until it answers that all jobs run with all their replicas, on nodes that are all ready.
  absl::Status AwaitTakenOver(absl::Duration limit);
  // All come to their supervisor; some at a time.
  absl::Status StartReplicas(absl::Duration limit);
  // Until each job has told its hints once more, and the supervisor has taken them.
  absl::Status AwaitHints(absl::Duration limit);
  void ChangeHints(int jobs) { hints_->Change(jobs); }

  // Calls that the supervisor has made, by "verb resource".
  std::map<std::string, int64_t> Calls() const;
  // Of those, what changes something; but for Leases.
  static std::map<std::string, int64_t> Changes(const std::map<std::string, int64_t>& calls);
  // Versions of all jobs' and pods' objects, by "namespace/name".
  std::map<std::string, std::string> Versions() const;

  load::Crowd& crowd() { return crowd_; }
  Process& supervisor() { return cluster_.supervisor(); }
  pid_t api_server() const { return api_.pid(); }
  pid_t kubelet() const { return kubelet_.pid(); }
  const std::string& folder() const { return cluster_.folder(); }

 private:
  static kube::KubeletOptions Hollow(int nodes);
  TestClusterOptions Programs() const;
  int RunningJobs();
  bool Await(absl::Duration limit, const std::function<bool()>& done);

  const ScaleOptions options_;
  kube::ApiServerDouble api_;
  kube::KubeletDouble kubelet_;
  std::unique_ptr<kube::Session> session_;
  kube::Client client_;
  TestCluster cluster_;
  std::vector<v1::LaunchReplica> launches_;
  // Played to the end of the process, as their replicas are.
  load::Crowd& crowd_;
  const std::shared_ptr<HintsBoard> hints_ = std::make_shared<HintsBoard>();
};

}  // namespace adaptdl::integration

#endif  // ADAPTDL_TESTS_INTEGRATION_KUBERNETES_SCALE_SCALE_RUN_H_
