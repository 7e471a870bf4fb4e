// TensorBoards in a cluster of Kubernetes: each a Deployment, and, owned by it, a claim for what jobs log and a Service. All three are
// called adaptdl-tensorboard-NAME; jobs that mount the claim show up.
//
// Plain functions over the API; thread-safe. Errors as those of libs/kube, with the object before them.

#ifndef ADAPTDL_CLI_KUBERNETES_TENSORBOARD_H_
#define ADAPTDL_CLI_KUBERNETES_TENSORBOARD_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/kubernetes/cluster.h"
#include "libs/kube/json/json.h"

namespace adaptdl::cli {

inline constexpr int kTensorboardPort = 6006;
// Where jobs and TensorBoard have the claim.
inline constexpr char kTensorboardFolder[] = "/adaptdl/tensorboard";

struct TensorboardOptions {
  std::string name;
  // Whether nodes serve it on a port of theirs.
  bool node_port = false;
  // Of the claim. Empty: the cluster's default.
  std::string storage_class = {};
  std::string size = "1Gi";
  std::string image = "tensorflow/tensorflow:2.15.0";
};

// "adaptdl-tensorboard-NAME".
std::string TensorboardObjectName(const std::string& name);

kube::Json TensorboardDeployment(const TensorboardOptions& options);
kube::Json TensorboardClaim(const TensorboardOptions& options, const kube::Json& owner);
kube::Json TensorboardService(const TensorboardOptions& options, const kube::Json& owner);

// Makes all three or none. INVALID_ARGUMENT: the name makes none of an object.
absl::Status CreateTensorboard(const Cluster& cluster, const TensorboardOptions& options);
// What it owns goes with it, and what jobs have logged there.
absl::Status DeleteTensorboard(const Cluster& cluster, const std::string& name);

struct TensorboardState {
  std::string name;
  // 0: it has none.
  int node_port = 0;
  std::string size;
  int ready = 0;
  int replicas = 0;
};

absl::StatusOr<std::vector<TensorboardState>> ListTensorboards(const Cluster& cluster);

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_KUBERNETES_TENSORBOARD_H_
