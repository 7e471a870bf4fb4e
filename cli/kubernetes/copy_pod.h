// A pod that has a job's claims as the job's own pods have them, to copy files from: the job may have no pods any more.
//
// It is owned by the job, ends by itself after a while, and has no rights and no token, so that one that could not be deleted does no harm.
// Plain functions and a handle for one thread. Errors as those of libs/kube.

#ifndef ADAPTDL_CLI_KUBERNETES_COPY_POD_H_
#define ADAPTDL_CLI_KUBERNETES_COPY_POD_H_

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/kubernetes/cluster.h"
#include "libs/kube/json/json.h"
#include "libs/kube/json/object.h"

namespace adaptdl::cli {

// What of the job's storage its pods see.
struct JobStorage {
  // Entries of a pod's `volumes` and a container's `volumeMounts`, all of claims.
  kube::Json volumes = kube::Json::array();
  kube::Json mounts = kube::Json::array();
  // Where checkpoints and shared files are.
  std::string checkpoint_folder;
  std::string share_folder;
};

// Of the AdaptDLJob. `own_claim`: the claim that the supervisor has made for the job; empty: it has none.
JobStorage StorageOf(const kube::Json& job, const std::string& own_claim);

// The name of that claim: "adaptdl-<uid>".
std::string OwnClaimName(const kube::Json& job);

// The absolute path in the pods of "checkpoint/X", "share/X" or an absolute path. INVALID_ARGUMENT: it is none, or on none of the
// job's claims.
absl::StatusOr<std::string> PathInPod(const JobStorage& storage, const std::string& path);

kube::Json MakeCopyPod(const kube::Json& job, const JobStorage& storage, const std::string& name,
                       const std::string& image);

class CopyPod {
 public:
  // Makes it, and waits until it runs; `note` is told why it does not yet. When that fails it is deleted again.
  static absl::StatusOr<std::unique_ptr<CopyPod>> Start(const Cluster& cluster, const kube::Json& pod,
                                                        const std::function<void(const std::string&)>& note,
                                                        const std::stop_token& stop);

  // Copies a file or folder of the pod to `to`, which is not there yet.
  absl::Status Copy(const std::string& from, const std::string& to, const std::stop_token& stop) const;

  // To be called, whatever has happened.
  absl::Status Delete() const;

 private:
  CopyPod(const Cluster& cluster, kube::ObjectKey key) : cluster_(cluster), key_(std::move(key)) {}

  absl::Status WaitUntilItRuns(const std::function<void(const std::string&)>& note,
                               const std::stop_token& stop) const;

  const Cluster& cluster_;
  const kube::ObjectKey key_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_KUBERNETES_COPY_POD_H_
