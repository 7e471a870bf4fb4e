// Where jobs keep their checkpoints, so that they outlive pods and nodes: one PersistentVolumeClaim for each job,
// which many nodes can write (ReadWriteMany), and which goes with its job. Jobs that bring a place of their own
// (ADAPTDL_CHECKPOINT_PATH) get none, nor does any where no storage class is configured.
//
// Thread-safe; blocks. Borrows the client and the clock. Errors as those of libs/kube.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_CHECKPOINT_CLAIM_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_CHECKPOINT_CLAIM_H_

#include <functional>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "adaptdl/v1/node_service.pb.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/kube/client/client.h"
#include "libs/kube/json/json.h"

namespace adaptdl::supervisor {

struct CheckpointClaimOptions {
  // Empty: no job gets a claim.
  std::string storage_class = {};
  // Of each claim, as a quantity.
  std::string size = "10Gi";
  // Empty: claims of all namespaces are looked at.
  std::string name_space = {};
  // How long one may wait for its volume before that is told.
  absl::Duration pending_deadline = absl::Minutes(2);
  // Told of a job that has no place for its checkpoints (yet), and why; with an empty `why`, that it has one after
  // all. Perhaps more than once; on any thread. Null: nobody is.
  std::function<void(const std::string& job_uid, const std::string& why)> tell = nullptr;
};

// "adaptdl-<uid>".
std::string ClaimNameOf(const std::string& job_uid);

// The claim of the job that the replica belongs to.
kube::Json MakeClaim(const v1::LaunchReplica& launch, const CheckpointClaimOptions& options);

class CheckpointClaims {
 public:
  CheckpointClaims(const kube::Client* client, const Clock* clock, CheckpointClaimOptions options)
      : client_(*client), clock_(*clock), options_(std::move(options)) {}

  // The name of the job's claim, which is made if it is not there. Empty: the job gets none.
  absl::StatusOr<std::string> Ensure(const v1::LaunchReplica& launch, const std::stop_token& stop);

  // Tells which claims wait too long for their volumes. To be called each minute or so, by one thread.
  absl::Status Check(const std::stop_token& stop);

 private:
  // Of Check(): a claim without a volume.
  struct Waiting {
    absl::Time since;
    bool is_told = false;
  };

  void Tell(const std::string& job_uid, const std::string& why) const;
  // Whether volumes come before anybody uses them.
  absl::StatusOr<bool> BindsAtOnce(const std::stop_token& stop) const;
  void TellWaiting(const std::set<std::string>& pending);

  const kube::Client& client_;
  const Clock& clock_;
  const CheckpointClaimOptions options_;

  Mutex mutex_;
  // Jobs whose claims are known to be there.
  std::set<std::string> made_ ABSL_GUARDED_BY(mutex_);
  // By job; of Check().
  std::map<std::string, Waiting> waiting_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_CHECKPOINT_CLAIM_H_
