// An AdaptDLJob as it is submitted: what its file says, and what the command line says besides.
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_CLI_KUBERNETES_SUBMISSION_H_
#define ADAPTDL_CLI_KUBERNETES_SUBMISSION_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/kubernetes/cluster.h"
#include "libs/kube/json/json.h"

namespace adaptdl::cli {

struct SubmissionOptions {
  // Beginning of the name, which the API server completes. Empty: as the file has it.
  std::string name_prefix = {};
  // Of the first container. Empty, none: as the file has them.
  std::string image = {};
  std::optional<std::vector<std::string>> arguments = std::nullopt;
  // Secret that the image is pulled with. Empty: none.
  std::string pull_secret = {};
  // Name of a TensorBoard whose claim the job mounts. Empty: none.
  std::string tensorboard = {};
  // A claim of the job's own for checkpoints and shared files. Empty: the supervisor's settings count.
  std::string claim = {};
};

// A claim with the name that `options` have, owned by the job that was made.
struct ClaimOptions {
  std::string name;
  std::string size = "1Gi";
  // Empty: the cluster's default.
  std::string storage_class = {};
};

// The object that is in the file, by kubectl's reading. INVALID_ARGUMENT: it is no AdaptDLJob.
absl::StatusOr<kube::Json> ReadJobObject(const Kubectl& kubectl, const std::string& name_space,
                                         const std::string& file);

// INVALID_ARGUMENT: the job has no containers, or a field is no list.
absl::Status Complete(const SubmissionOptions& options, kube::Json* job);

kube::Json JobClaim(const ClaimOptions& options, const kube::Json& job);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_KUBERNETES_SUBMISSION_H_
