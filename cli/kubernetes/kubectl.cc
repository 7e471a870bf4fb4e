#include "cli/kubernetes/kubectl.h"

#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/kubernetes/program.h"

namespace adaptdl::cli {
namespace {

absl::Status Explained(const absl::Status& status) {
  if (!absl::IsNotFound(status)) return status;
  return absl::FailedPreconditionError(
      "kubectl is not in PATH: install it (kubernetes.io/docs/tasks/tools; Debian: kubernetes-client); "
      "it carries connections to pods");
}

template <typename T>
absl::StatusOr<T> Explained(absl::StatusOr<T> result) {
  if (result.ok()) return result;
  return Explained(result.status());
}

}  // namespace

Kubectl::Kubectl(const std::string& kubeconfig, const std::string& context) : command_({"kubectl"}) {
  if (!kubeconfig.empty()) command_.push_back(absl::StrCat("--kubeconfig=", kubeconfig));
  if (!context.empty()) command_.push_back(absl::StrCat("--context=", context));
}

std::vector<std::string> Kubectl::Command(const std::string& name_space,
                                          const std::vector<std::string>& arguments) const {
  std::vector<std::string> command = command_;
  if (!name_space.empty()) command.push_back(absl::StrCat("--namespace=", name_space));
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

absl::StatusOr<pid_t> Kubectl::Start(const std::string& name_space, const std::vector<std::string>& arguments,
                                     int output_fd) const {
  return Explained(StartProgram(Command(name_space, arguments), output_fd, output_fd));
}

absl::Status Kubectl::Run(const std::string& name_space, const std::vector<std::string>& arguments,
                          const std::stop_token& stop) const {
  return Explained(RunToEnd(Command(name_space, arguments), stop));
}

absl::StatusOr<std::string> Kubectl::Output(const std::string& name_space,
                                            const std::vector<std::string>& arguments) const {
  return Explained(OutputOfProgram(Command(name_space, arguments)));
}

}  // namespace adaptdl::cli
