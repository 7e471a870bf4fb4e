#include "libs/kube/access/kubeconfig.h"

#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/kube/access/exec_credentials.h"
#include "libs/kube/access/kubeconfig_file.h"
#include "libs/kube/json/json.h"

namespace adaptdl::kube {
namespace {

using Entries = std::map<std::string, KubeconfigEntry>;

absl::Status Problem(const KubeconfigEntry& entry, absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(entry.description, ": ", text));
}

absl::StatusOr<const KubeconfigEntry*> Find(const Entries& entries, const char* kind,
                                            const std::string& name) {
  const auto found = entries.find(name);
  if (found != entries.end()) return &found->second;
  return absl::NotFoundError(absl::StrCat("the kubeconfig has no ", kind, " \"", name, "\""));
}

absl::StatusOr<Access> ReadCluster(const KubeconfigEntry& cluster) {
  absl::StatusOr<TextOrFile> ca = cluster.TextOrPath("certificate-authority");
  if (!ca.ok()) return ca.status();
  Access access = {.server = std::string(absl::StripSuffix(cluster.Text("server"), "/")),
                   .tls_server_name = cluster.Text("tls-server-name"),
                   .proxy_url = cluster.Text("proxy-url"),
                   .ca = *std::move(ca),
                   .insecure = cluster.Bool("insecure-skip-tls-verify"),
                   .credentials = nullptr};
  if (access.server.empty()) return Problem(cluster, "it has no server");
  return access;
}

// What exec plugins are told of the cluster, if they ask for it.
std::string DescribeCluster(const Access& access) {
  Json cluster = {{"server", access.server}};
  if (!access.tls_server_name.empty()) cluster["tls-server-name"] = access.tls_server_name;
  if (!access.proxy_url.empty()) cluster["proxy-url"] = access.proxy_url;
  if (access.insecure) cluster["insecure-skip-tls-verify"] = true;
  const absl::StatusOr<std::string> ca = access.ca.Read();
  if (ca.ok() && !ca->empty()) cluster["certificate-authority-data"] = absl::Base64Escape(*ca);
  return Dump(cluster);
}

absl::StatusOr<std::unique_ptr<CredentialSource>> ReadExec(const KubeconfigEntry& user,
                                                           const Access& access) {
  const KubeconfigEntry exec = {user.description, user.folder, user.fields["exec"]};
  const std::string command = exec.Text("command");
  if (command.empty()) return Problem(user, "exec has no command");
  ExecOptions options = {.api_version = exec.Text("apiVersion"), .command = {}};
  if (!absl::StartsWith(options.api_version, "client.authentication.k8s.io/v1") ||
      absl::StrContains(options.api_version, "alpha")) {
    return Problem(user, "exec.apiVersion is to be client.authentication.k8s.io/v1 or v1beta1");
  }
  if (exec.Text("interactiveMode") == "Always") {
    return Problem(user,
                   "the login program has to ask a person (interactiveMode: Always), which it can't here");
  }
  options.command.push_back(absl::StrContains(command, '/') ? exec.Path("command") : command);
  for (const YAML::Node& argument : exec.fields["args"])
    options.command.push_back(argument.as<std::string>());
  for (const YAML::Node& variable : exec.fields["env"]) {
    options.environment.emplace_back(variable["name"].as<std::string>(), variable["value"].as<std::string>());
  }
  if (exec.Bool("provideClusterInfo")) options.cluster_json = DescribeCluster(access);
  options.install_hint = exec.Text("installHint");
  return std::make_unique<ExecCredentials>(std::move(options));
}

absl::StatusOr<std::unique_ptr<CredentialSource>> ReadUser(const KubeconfigEntry& user,
                                                           const Access& access) {
  const bool is_map = user.fields.IsDefined() && user.fields.IsMap();
  if (is_map && user.fields["exec"].IsDefined()) return ReadExec(user, access);
  if (is_map && user.fields["auth-provider"].IsDefined()) {
    return absl::UnimplementedError(absl::StrCat(
        user.description, ": auth-provider is not supported; use an exec plugin of the provider"));
  }
  ConfiguredCredentials::Options options = {.username = user.Text("username"),
                                            .password = user.Text("password")};
  // As kubectl does: a file counts more than a text beside it, since it may be renewed.
  options.bearer_token = {.text = user.Text("token"), .path = user.Path("tokenFile")};
  absl::StatusOr<TextOrFile> certificate = user.TextOrPath("client-certificate");
  if (!certificate.ok()) return certificate.status();
  absl::StatusOr<TextOrFile> key = user.TextOrPath("client-key");
  if (!key.ok()) return key.status();
  options.certificate = *std::move(certificate);
  options.key = *std::move(key);
  return std::make_unique<ConfiguredCredentials>(std::move(options));
}

absl::StatusOr<Access> ReadContext(const Kubeconfig& config, const std::string& name) {
  if (name.empty()) {
    return absl::NotFoundError(
        "the kubeconfig has no current-context; name one, or `kubectl config use-context`");
  }
  const absl::StatusOr<const KubeconfigEntry*> context = Find(config.contexts, "context", name);
  if (!context.ok()) return context.status();
  const auto cluster = Find(config.clusters, "cluster", (*context)->Text("cluster"));
  if (!cluster.ok()) return cluster.status();
  const auto user = Find(config.users, "user", (*context)->Text("user"));
  if (!user.ok()) return user.status();
  absl::StatusOr<Access> access = ReadCluster(**cluster);
  if (!access.ok()) return access;
  absl::StatusOr<std::unique_ptr<CredentialSource>> credentials = ReadUser(**user, *access);
  if (!credentials.ok()) return credentials.status();
  access->credentials = *std::move(credentials);
  const std::string name_space = (*context)->Text("namespace");
  if (!name_space.empty()) access->default_namespace = name_space;
  return access;
}

}  // namespace

absl::StatusOr<Access> AccessByKubeconfig(const KubeconfigOptions& options) {
  const absl::StatusOr<Kubeconfig> config = ReadKubeconfigs(options.files);
  if (!config.ok()) return config.status();
  try {
    return ReadContext(*config, options.context.empty() ? config->current_context : options.context);
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("the kubeconfig makes no sense: ", error.what()));
  }
}

}  // namespace adaptdl::kube
