#include "tests/integration/kubernetes/command_cluster.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "libs/base/clock.h"
#include "libs/base/file.h"
#include "libs/certificates/certificates.h"
#include "libs/kube/access/credentials.h"
#include "libs/kube/json/object.h"
#include "tests/kube/yaml.h"

namespace adaptdl::integration {
namespace {

using kube::Json;

constexpr char kPeople[] = "root-token,root,1,\"system:masters\"\nann-token,ann,2,\"\"\n";
const kube::ResourceType kNamespaces = {"", "v1", "namespaces", "Namespace", false};
const kube::ResourceType kConfigMaps = {"", "v1", "configmaps", "ConfigMap"};
const kube::ResourceType kAccounts = {"", "v1", "serviceaccounts", "ServiceAccount"};
const kube::ResourceType kRoles = {"rbac.authorization.k8s.io", "v1", "roles", "Role"};
const kube::ResourceType kBindings = {"rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"};
const kube::ResourceType kCrds = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                  "CustomResourceDefinition", false};

// The API server's own certificate is that of the allocator, which this cluster has not.
std::string MakeCertificates(const cli::TemporaryFolder& folder) {
  const std::string path = folder.path() + "/security";
  const auto made =
      certificates::MakeCertificates({.folder = path,
                                      .identities = {{.service = "supervisor"}, {.service = "allocator"}},
                                      .now = absl::Now()});
  EXPECT_TRUE(made.ok()) << made.status();
  return path;
}

kube::KubeletOptions KubeletOptions(const std::string& images) {
  return {.images = absl::StrCat(R"({"supervisor": {}, "busybox:1.36": {})", images.empty() ? "" : ", ",
                                 images, "}"),
          .token = "root-token"};
}

Json Rule(const std::string& group, const std::vector<std::string>& resources,
          const std::vector<std::string>& verbs, const std::vector<std::string>& names = {}) {
  Json rule = {{"apiGroups", Json::array({group})}, {"resources", resources}, {"verbs", verbs}};
  if (!names.empty()) rule["resourceNames"] = names;
  return rule;
}

}  // namespace

bool Eventually(const std::function<bool()>& condition) {
  const absl::Time deadline = SteadyNow() + absl::Minutes(2);
  while (!condition()) {
    if (SteadyNow() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(50));
  }
  return true;
}

CommandCluster::CommandCluster(const std::string& images)
    : has_kubectl_(access("/usr/bin/kubectl", X_OK) == 0),
      api_(kPeople, MakeCertificates(folder_) + "/allocator"),
      kubelet_(api_.url(), KubeletOptions(images)),
      session_(kube::Session::Create(
                   {.server = api_.url(),
                    .credentials = std::make_unique<kube::ConfiguredCredentials>(
                        kube::ConfiguredCredentials::Options{.bearer_token = {.text = "root-token"}})})
                   .value()),
      client_(session_.get()) {}

std::string CommandCluster::Kubeconfig(const std::string& person, const std::string& token) {
  return folder_.Write(
      person + ".kubeconfig",
      absl::StrCat(
          "apiVersion: v1\nkind: Config\ncurrent-context: test\nclusters: [{name: test, cluster: {server: \"",
          api_.tls_url(), "\", certificate-authority: ", folder_.path(),
          "/security/ca.pem, tls-server-name: allocator.adaptdl}}]\nusers: [{name: ", person,
          ", user: {token: ", token, "}}]\ncontexts: [{name: test, context: {cluster: test, user: ", person,
          ", namespace: ", kTeam, "}}]\n"));
}

Json CommandCluster::Make(const kube::ResourceType& type, const std::string& name_space, const Json& object) {
  const auto made = client_.Create(kube::Collection(type, name_space), object, {.field_manager = "test"});
  EXPECT_TRUE(made.ok()) << made.status();
  return made.ok() ? *made : Json();
}

std::string CommandCluster::OtherAuthority() const {
  const std::string path = folder_.path() + "/other";
  const auto made = certificates::MakeCertificates(
      {.folder = path, .identities = {{.service = "worker"}}, .now = absl::Now()});
  EXPECT_TRUE(made.ok()) << made.status();
  return ReadWholeFile(path + "/ca.pem").value_or("");
}

Json CommandCluster::Get(const kube::Target& target) {
  const auto object = client_.Get(target);
  return object.ok() ? *object : Json();
}

void CommandCluster::MakeObjects() {
  for (const char* name : {"adaptdljob", "adaptdlquota"}) Make(kCrds, "", kube::ReadCrd(name));
  for (const char* name : {"adaptdl", kTeam}) Make(kNamespaces, "", {{"metadata", {{"name", name}}}});
  const auto ca = ReadWholeFile(folder_.path() + "/security/ca.pem");
  ASSERT_TRUE(ca.ok()) << ca.status();
  Make(kConfigMaps, "adaptdl", {{"metadata", {{"name", "adaptdl-ca"}}}, {"data", {{"ca.crt", *ca}}}});
  Make(kAccounts, kTeam, {{"metadata", {{"name", "adaptdl-user"}}}});
  MakeRoles();
  Kubeconfig("ann", "ann-token");
}

void CommandCluster::MakeRoles() {
  const std::string jobs = "adaptdl.petuum.com";
  const std::vector<std::string> read = {"get", "list", "watch"};
  const std::vector<std::string> all = {"get", "list", "watch", "create", "patch", "delete"};
  const Json users =
      Json::array({Rule(jobs, {"adaptdljobs"}, all), Rule("", {"pods/log"}, {"get"}), Rule("", {"pods"}, all),
                   Rule("", {"pods/exec", "pods/portforward"}, {"get", "create"}),
                   Rule("", {"persistentvolumeclaims", "services"}, all), Rule("apps", {"deployments"}, all),
                   Rule("", {"serviceaccounts/token"}, {"create"}, {"adaptdl-user"})});
  const Json reach =
      Json::array({Rule("", {"pods", "services"}, read), Rule("", {"configmaps"}, read, {"adaptdl-ca"}),
                   Rule("", {"pods/portforward"}, {"get", "create"})});
  const Json ann = {{"kind", "User"}, {"name", "ann"}, {"apiGroup", kRoles.group}};
  const Json account = {{"kind", "ServiceAccount"}, {"name", "adaptdl-user"}, {"namespace", kTeam}};
  for (const auto& [space, rules] : {std::pair<std::string, Json>(kTeam, users), {"adaptdl", reach}}) {
    Make(kRoles, space, {{"metadata", {{"name", "user"}}}, {"rules", rules}});
    Make(kBindings, space,
         {{"metadata", {{"name", "user"}}},
          {"roleRef", {{"apiGroup", kRoles.group}, {"kind", "Role"}, {"name", "user"}}},
          {"subjects", Json::array({ann, account})}});
  }
}

Json CommandCluster::SupervisorPod(int number) {
  const std::string security = folder_.path() + "/security";
  const Json container = {
      {"name", "supervisor"},
      {"image", "supervisor"},
      {"env",
       Json::array({{{"name", "IP"}, {"valueFrom", {{"fieldRef", {{"fieldPath", "status.podIP"}}}}}}})},
      {"command",
       {ADAPTDL_BINARY_DIR "/bin/adaptdl-supervisor",
        "--backend",
        "kubernetes",
        "--listen",
        "$(IP):7100",
        "--metrics-listen",
        "127.0.0.1:0",
        "--state-dir",
        "/root/state",
        "--kubeconfig",
        Kubeconfig("root", "root-token"),
        "--own-namespace",
        "adaptdl",
        "--election-duration",
        "2s",
        "--group-key-file",
        folder_.Write("group-key", "a secret of this test alone, of 32 bytes and more"),
        "--replica-supervisor-address",
        "127.0.0.1:7100",
        "--replica-ca",
        security + "/ca.pem",
        "--tls-cert",
        security + "/supervisor/cert.pem",
        "--tls-key",
        security + "/supervisor/key.pem",
        "--tls-ca",
        security + "/ca.pem",
        "--webhook-listen",
        ""}}};
  return {{"metadata", {{"name", absl::StrCat("adaptdl-supervisor-", number)}}},
          {"spec", {{"restartPolicy", "Never"}, {"containers", Json::array({container})}}}};
}

void CommandCluster::StartSupervisors() {
  for (int number = 0; number < 2; ++number) Make(kube::Pods(), "adaptdl", SupervisorPod(number));
  for (int number = 0; number < 2; ++number) {
    WaitForPhase("adaptdl", absl::StrCat("adaptdl-supervisor-", number), "Running");
  }
}

void CommandCluster::WaitForPhase(const std::string& name_space, const std::string& pod,
                                  const std::string& phase) {
  Json last;
  EXPECT_TRUE(Eventually([&] {
    last = Get(kube::ObjectOf(kube::Pods(), {name_space, pod}));
    return kube::TextAt(last, {"status", "phase"}) == phase;
  })) << pod
      << " is not " << phase << ": " << last.dump(1);
}

std::vector<std::string> CommandCluster::Flags() const {
  return {"--kubernetes", "--kubeconfig", folder_.path() + "/ann.kubeconfig"};
}

cli::ProgramResult CommandCluster::Run(std::vector<std::string> arguments,
                                       const std::vector<std::string>& environment) {
  const std::vector<std::string> flags = Flags();
  arguments.insert(arguments.begin(), flags.begin(), flags.end());
  return cli::RunProgram(folder_.path(), arguments, environment);
}

}  // namespace adaptdl::integration
