// Where an API server is, and how it and we know each other.
//
//   auto access = FindAccess({.kubeconfig = flag});   // as kubectl and programs in pods find it
//
// The functions are thread-safe. Errors name the file, the entry and the remedy: NOT_FOUND (nothing says where
// the server is, or a file or an entry is not there), INVALID_ARGUMENT (what is there makes no sense),
// UNIMPLEMENTED (a way to log in that is not supported).

#ifndef ADAPTDL_LIBS_KUBE_ACCESS_ACCESS_H_
#define ADAPTDL_LIBS_KUBE_ACCESS_ACCESS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "libs/kube/access/credentials.h"
#include "libs/kube/access/text_or_file.h"

namespace adaptdl::kube {

struct Access {
  // "https://10.0.0.1:6443", perhaps with a path, without a slash at the end.
  std::string server;
  // The name in the server's certificate. Empty: that in `server`.
  std::string tls_server_name = {};
  // Empty: what the environment says.
  std::string proxy_url = {};
  // Authorities, as PEM. Nothing: the system's.
  TextOrFile ca = {};
  bool insecure = false;
  // For who names none.
  std::string default_namespace = "default";
  std::unique_ptr<CredentialSource> credentials = nullptr;
};

struct AccessOptions {
  // A kubeconfig file. Empty: $KUBECONFIG (several, by colons), or else the pod that this runs in, or else
  // ~/.kube/config.
  std::string kubeconfig = {};
  // An entry of its `contexts`. Empty: its current one.
  std::string context = {};
};

// Reads the environment of the process.
absl::StatusOr<Access> FindAccess(const AccessOptions& options = {});

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_ACCESS_ACCESS_H_
