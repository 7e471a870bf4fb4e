#include "libs/kube/access/access.h"

#include <cstdlib>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/kube/access/in_cluster.h"
#include "libs/kube/access/kubeconfig.h"

namespace adaptdl::kube {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody changes it
  return value == nullptr ? "" : value;
}

}  // namespace

absl::StatusOr<Access> FindAccess(const AccessOptions& options) {
  const std::string files = options.kubeconfig.empty() ? Variable("KUBECONFIG") : options.kubeconfig;
  if (!files.empty()) {
    return AccessByKubeconfig(
        {.files = absl::StrSplit(files, ':', absl::SkipEmpty()), .context = options.context});
  }
  const std::string host = Variable("KUBERNETES_SERVICE_HOST");
  if (!host.empty()) return AccessInCluster({.host = host, .port = Variable("KUBERNETES_SERVICE_PORT")});
  const std::string home = Variable("HOME");
  if (home.empty()) {
    return absl::NotFoundError(
        "nothing says where the API server is: set KUBECONFIG, or run in a pod of the cluster");
  }
  return AccessByKubeconfig({.files = {absl::StrCat(home, "/.kube/config")}, .context = options.context});
}

}  // namespace adaptdl::kube
