// Access by kubeconfig files, as kubectl has it: of several files, the first that names an entry counts, and
// paths in a file are relative to it.
//
// Ways to log in: token and tokenFile, client certificates, user name and password, exec plugins. The old
// auth-provider is UNIMPLEMENTED, as it is in kubectl today.
//
// Thread-safe. Other errors as in access.h.

#ifndef ADAPTDL_LIBS_KUBE_ACCESS_KUBECONFIG_H_
#define ADAPTDL_LIBS_KUBE_ACCESS_KUBECONFIG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/kube/access/access.h"

namespace adaptdl::kube {

struct KubeconfigOptions {
  // At least one of them is there.
  std::vector<std::string> files;
  // Empty: the current one.
  std::string context = {};
};

absl::StatusOr<Access> AccessByKubeconfig(const KubeconfigOptions& options);

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_ACCESS_KUBECONFIG_H_
