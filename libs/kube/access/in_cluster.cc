#include "libs/kube/access/in_cluster.h"

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace adaptdl::kube {

absl::StatusOr<Access> AccessInCluster(const InClusterOptions& options) {
  const TextOrFile token = {.path = absl::StrCat(options.folder, "/token")};
  const TextOrFile ca = {.path = absl::StrCat(options.folder, "/ca.crt")};
  for (const TextOrFile& file : {token, ca}) {
    if (const auto content = file.Read(); !content.ok()) {
      return absl::NotFoundError(absl::StrCat("the pod has no service account (", content.status().message(),
                                              "): give it one, without automountServiceAccountToken: false"));
    }
  }
  const bool is_ipv6 = absl::StrContains(options.host, ':') && options.host[0] != '[';
  Access access = {.server = absl::StrCat("https://", is_ipv6 ? "[" : "", options.host, is_ipv6 ? "]" : "",
                                          ":", options.port),
                   .ca = ca,
                   .credentials = std::make_unique<ConfiguredCredentials>(
                       ConfiguredCredentials::Options{.bearer_token = token})};
  const TextOrFile name = {.path = absl::StrCat(options.folder, "/namespace")};
  if (const auto content = name.Read(); content.ok()) {
    access.default_namespace = std::string(absl::StripAsciiWhitespace(*content));
  }
  return access;
}

}  // namespace adaptdl::kube
