// kubectl as a child process, for what Kubernetes does by streams: it speaks their protocols, and finds proxies and logins as people have
// set them up.
//
// A plain value; thread-safe. Children end with the thread that started them.

#ifndef ADAPTDL_CLI_KUBERNETES_KUBECTL_H_
#define ADAPTDL_CLI_KUBERNETES_KUBECTL_H_

#include <sys/types.h>

#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adaptdl::cli {

class Kubectl {
 public:
  // Empty: what kubectl takes by itself.
  Kubectl(const std::string& kubeconfig, const std::string& context);

  // Starts "kubectl -n NAMESPACE ARGUMENTS" (without a namespace: that of the kubeconfig). `output_fd`: for its output and errors; -1: they are ours. FAILED_PRECONDITION: it is not
  // installed.
  absl::StatusOr<pid_t> Start(const std::string& name_space, const std::vector<std::string>& arguments,
                              int output_fd = -1) const;
  // The same to its end, or until a stop is requested (CANCELLED). ABORTED: it has failed; the reason is on
  // standard error.
  absl::Status Run(const std::string& name_space, const std::vector<std::string>& arguments,
                   const std::stop_token& stop = {}) const;
  // The same, for what it writes to its standard output.
  absl::StatusOr<std::string> Output(const std::string& name_space,
                                     const std::vector<std::string>& arguments) const;

 private:
  std::vector<std::string> Command(const std::string& name_space,
                                   const std::vector<std::string>& arguments) const;

  std::vector<std::string> command_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_KUBERNETES_KUBECTL_H_
