// Access of a program in a pod, by the pod's service account.
//
// Thread-safe. NOT_FOUND: the service account's files are not there (automountServiceAccountToken: false).

#ifndef ADAPTDL_LIBS_KUBE_ACCESS_IN_CLUSTER_H_
#define ADAPTDL_LIBS_KUBE_ACCESS_IN_CLUSTER_H_

#include <string>

#include "absl/status/statusor.h"
#include "libs/kube/access/access.h"

namespace adaptdl::kube {

struct InClusterOptions {
  // $KUBERNETES_SERVICE_HOST: an address or a name.
  std::string host;
  std::string port = "443";
  // Holds token, ca.crt and namespace.
  std::string folder = "/var/run/secrets/kubernetes.io/serviceaccount";
};

absl::StatusOr<Access> AccessInCluster(const InClusterOptions& options);

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_ACCESS_IN_CLUSTER_H_
