// A cluster of Kubernetes for tests of the command: doubles that speak TLS and ask who one is, two supervisors as pods behind their
// names, and "ann", who may do in the namespace "team" what the guide gives to users. Belongs to one test.

#ifndef ADAPTDL_TESTS_INTEGRATION_KUBERNETES_COMMAND_CLUSTER_H_
#define ADAPTDL_TESTS_INTEGRATION_KUBERNETES_COMMAND_CLUSTER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/kube/client/client.h"
#include "libs/kube/client/session.h"
#include "tests/cli/program.h"
#include "tests/kube/double.h"

namespace adaptdl::integration {

inline constexpr char kTeam[] = "team";

class CommandCluster {
 public:
  // `images`: of the kubelet, as JSON, beside those that it has for supervisors and with a shell ("busybox:1.36").
  explicit CommandCluster(const std::string& images = "");

  // Whether containers may run here, and kubectl is there. If not, tests skip.
  bool runs() const { return kubelet_.runs() && has_kubectl_; }

  // CRDs, namespaces, roles, the supervisors' CA.
  void MakeObjects();
  // adaptdl-supervisor-0 and -1; returns when both run.
  void StartSupervisors();

  // "adaptdl --kubernetes ARGUMENTS", as ann.
  cli::ProgramResult Run(std::vector<std::string> arguments,
                         const std::vector<std::string>& environment = {});
  // The flags of it.
  std::vector<std::string> Flags() const;

  // As somebody who may do everything. Fails the test if it can't be made.
  kube::Json Make(const kube::ResourceType& type, const std::string& name_space, const kube::Json& object);
  kube::Client& client() { return client_; }
  kube::KubeletDouble& kubelet() { return kubelet_; }
  const cli::TemporaryFolder& folder() const { return folder_; }

  // The certificate of an authority that has nothing to do with the cluster.
  std::string OtherAuthority() const;

  // Of the object; null: it is not there.
  kube::Json Get(const kube::Target& target);
  // Waits until the pod is in this phase.
  void WaitForPhase(const std::string& name_space, const std::string& pod, const std::string& phase);

 private:
  std::string Kubeconfig(const std::string& person, const std::string& token);
  kube::Json SupervisorPod(int number);
  void MakeRoles();

  const cli::TemporaryFolder folder_;
  const bool has_kubectl_;
  kube::ApiServerDouble api_;
  kube::KubeletDouble kubelet_;
  std::unique_ptr<kube::Session> session_;
  kube::Client client_;
};

// Waits for what others do in their own time. False: it did not come to pass.
bool Eventually(const std::function<bool()>& condition);

}  // namespace adaptdl::integration

#endif  // ADAPTDL_TESTS_INTEGRATION_KUBERNETES_COMMAND_CLUSTER_H_
