#include "cli/kubernetes/supervisor_route.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/context.h"
#include "cli/kubernetes/cluster.h"
#include "cli/kubernetes/port_forward.h"
#include "cli/security.h"
#include "libs/base/file.h"
#include "libs/base/unique_fd.h"
#include "libs/kube/json/json.h"
#include "libs/rpc/security.h"

namespace adaptdl::cli {
namespace {

constexpr char kSupervisorPod[] = "adaptdl-supervisor-";
constexpr int kSupervisorPort = 7100;
// More pods than any cluster has.
constexpr int kMostPods = 16;
constexpr char kCaName[] = "adaptdl-ca";
constexpr char kCaKey[] = "ca.crt";
constexpr char kAudience[] = "adaptdl";
// Commands may follow a job for long; clusters may grant less.
constexpr absl::Duration kTokenLife = absl::Hours(24);

// Pods of a StatefulSet have consecutive names, by which they are found without the right to list pods.
absl::StatusOr<std::vector<std::string>> FindPods(const Context& context, const Cluster& cluster) {
  const std::string& name_space = context.kubernetes.operator_namespace;
  std::vector<std::string> running;
  for (int number = 0; number < kMostPods; ++number) {
    const std::string name = absl::StrCat(kSupervisorPod, number);
    const absl::StatusOr<kube::Json> pod =
        cluster.client().Get(kube::ObjectOf(kube::Pods(), {name_space, name}));
    if (absl::IsNotFound(pod.status())) {
      // The first may be about to be made anew.
      if (number == 0) continue;
      break;
    }
    if (!pod.ok()) return While(absl::StrCat("looking for pod ", name_space, "/", name), pod.status());
    if (kube::TextAt(*pod, {"status", "phase"}) == "Running") running.push_back(name);
  }
  if (!running.empty()) return running;
  return absl::UnavailableError(absl::StrCat(
      "no pod ", name_space, "/", kSupervisorPod,
      "N runs: is AdaptDL installed in this cluster? --operator-namespace names another namespace of it, "
      "--kube-context another cluster"));
}

absl::StatusOr<std::string> ReadCa(const Context& context, const Cluster& cluster) {
  const std::string& name_space = context.kubernetes.operator_namespace;
  const std::string what = absl::StrCat("the CA of the supervisor, in ConfigMap ", name_space, "/", kCaName);
  const absl::StatusOr<kube::Json> map =
      cluster.client().Get(kube::ObjectOf(ConfigMaps(), {name_space, kCaName}));
  if (!map.ok()) return While(what, map.status());
  std::string ca = kube::TextAt(*map, {"data", kCaKey});
  if (ca.empty())
    return absl::NotFoundError(absl::StrCat(what, ": it has no ", kCaKey, "; --ca names a file"));
  return ca;
}

absl::StatusOr<std::string> RequestToken(const Context& context, const Cluster& cluster) {
  const kube::ObjectKey account = {cluster.name_space(), context.kubernetes.service_account};
  const kube::Json request = {
      {"apiVersion", "authentication.k8s.io/v1"},
      {"kind", "TokenRequest"},
      {"spec", {{"audiences", {kAudience}}, {"expirationSeconds", absl::ToInt64Seconds(kTokenLife)}}}};
  const absl::StatusOr<std::string> answer =
      cluster.client().session().Call({.method = "POST",
                                       .target = kube::ObjectOf(ServiceAccounts(), account).Sub("token"),
                                       .body = kube::Dump(request)});
  const std::string what = absl::StrCat("a token of ServiceAccount ", account.ToString());
  if (absl::IsNotFound(answer.status())) {
    return absl::NotFoundError(absl::StrCat(what, ": ", answer.status().message(),
                                            "; the namespace has to have it, or --service-account names "
                                            "another one (docs/kubernetes.md)"));
  }
  if (!answer.ok()) return While(what, answer.status());
  const absl::StatusOr<kube::Json> granted = kube::ParseJson(*answer);
  if (!granted.ok()) return While(what, granted.status());
  std::string token = kube::TextAt(*granted, {"status", "token"});
  if (token.empty()) return absl::InternalError(absl::StrCat(what, ": the API server gave none"));
  return token;
}

// A path for libraries that read files, of one that goes with `fd`.
absl::StatusOr<std::string> WriteUnnamed(const std::string& text, UniqueFd* fd) {
  fd->Reset(memfd_create("adaptdl-ca", MFD_CLOEXEC));
  if (!fd->valid() || write(fd->get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return ErrnoStatus(errno, "memory for the CA's certificate");
  }
  return absl::StrCat("/proc/self/fd/", fd->get());
}

}  // namespace

absl::StatusOr<std::unique_ptr<SupervisorRoute>> SupervisorRoute::Open(const Context& context) {
  const absl::StatusOr<std::unique_ptr<Cluster>> cluster = Cluster::Open(context);
  if (!cluster.ok()) return cluster.status();
  auto route = std::unique_ptr<SupervisorRoute>(new SupervisorRoute());
  if (absl::Status status = route->ForwardPorts(context, **cluster); !status.ok()) return status;
  if (absl::Status status = route->FindSecurity(context, **cluster); !status.ok()) return status;
  if (absl::Status status = route->AwaitPorts(context.call_timeout); !status.ok()) return status;
  return route;
}

absl::Status SupervisorRoute::FindSecurity(const Context& context, const Cluster& cluster) {
  if (context.insecure) {
    security_ = rpc::Plaintext();
    return absl::OkStatus();
  }
  security_.server_name = context.tls_server_name.empty() ? rpc::kSupervisorName : context.tls_server_name;
  security_.tls.ca = context.ca_file;
  if (security_.tls.ca.empty()) {
    const absl::StatusOr<std::string> ca = ReadCa(context, cluster);
    if (!ca.ok()) return ca.status();
    const absl::StatusOr<std::string> path = WriteUnnamed(*ca, &ca_);
    if (!path.ok()) return path.status();
    security_.tls.ca = *path;
  }
  absl::StatusOr<std::string> token =
      context.token_file.empty() ? RequestToken(context, cluster) : ReadToken(context.token_file);
  if (!token.ok()) return token.status();
  security_.token = *std::move(token);
  return rpc::CheckClientSecurity(security_);
}

absl::Status SupervisorRoute::ForwardPorts(const Context& context, const Cluster& cluster) {
  const absl::StatusOr<std::vector<std::string>> pods = FindPods(context, cluster);
  if (!pods.ok()) return pods.status();
  for (const std::string& pod : *pods) {
    forwards_.push_back(std::make_unique<PortForward>(
        cluster.kubectl(), PortForward::Options{.name_space = context.kubernetes.operator_namespace,
                                                .target = absl::StrCat("pod/", pod),
                                                .port = kSupervisorPort}));
  }
  return absl::OkStatus();
}

absl::Status SupervisorRoute::AwaitPorts(absl::Duration timeout) {
  absl::Status failure;
  for (const std::unique_ptr<PortForward>& forward : forwards_) {
    const absl::StatusOr<int> port = forward->WaitForPort(timeout);
    // One of them may be about to go; the others do.
    if (!port.ok()) {
      failure = port.status();
      continue;
    }
    addresses_.push_back(absl::StrCat("127.0.0.1:", *port));
  }
  return addresses_.empty() ? failure : absl::OkStatus();
}

}  // namespace adaptdl::cli
