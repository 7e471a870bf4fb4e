#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Validators.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/commands/commands.h"
#include "cli/format.h"
#include "cli/output.h"
#include "libs/base/file.h"
#include "libs/base/random_id.h"
#include "libs/certificates/certificates.h"

namespace adaptdl::cli {
namespace {

using certificates::Action;
using certificates::Certificate;

constexpr int64_t kMaxFileBytes = int64_t{1} << 20;
constexpr int kSecretMode = 0600;
constexpr int kGroupKeyBytes = 32;
// Those that run in a cluster of Kubernetes: the kubelet is the worker.
constexpr const char* kServices[] = {"supervisor", "allocator", "autoscaler"};
// Of the Service before the webhook, in deploy/kubernetes.
constexpr char kWebhookService[] = "adaptdl-webhook";

struct SecretOptions {
  std::string folder;
  std::string name_space = "adaptdl";
  int days = 365;
  bool webhook_patch = false;
};

std::vector<certificates::Identity> Identities(const SecretOptions& options) {
  std::vector<certificates::Identity> identities;
  for (const char* service : kServices) identities.push_back({.service = service});
  identities.push_back({.service = certificates::kWebhook,
                        .dns_name = absl::StrCat(kWebhookService, ".", options.name_space, ".svc")});
  return identities;
}

// Once and for all: with another one, running replicas are strangers.
absl::StatusOr<std::string> GroupKey(const std::string& folder) {
  const std::string path = folder + "/group.key";
  const absl::StatusOr<std::string> key = ReadWholeFile(path, kMaxFileBytes);
  if (!absl::IsNotFound(key.status())) return key;
  const std::string made = RandomHex(kGroupKeyBytes);
  if (absl::Status status = WriteFileAtomically(path, made, kSecretMode); !status.ok()) return status;
  return made;
}

Json ObjectOf(const std::string& kind, const std::string& name, const SecretOptions& options) {
  return {{"apiVersion", "v1"},
          {"kind", kind},
          {"metadata",
           {{"name", name},
            {"namespace", options.name_space},
            {"labels", {{"app.kubernetes.io/part-of", "adaptdl"}}}}}};
}

Json SecretOf(const std::string& name, const std::string& type, const Json& contents,
              const SecretOptions& options) {
  Json secret = ObjectOf("Secret", name, options);
  secret["type"] = type;
  secret["data"] = Json::object();
  for (const auto& [file, content] : contents.items()) {
    secret["data"][file] = absl::Base64Escape(content.get<std::string>());
  }
  return secret;
}

absl::StatusOr<Json> TlsSecretOf(const certificates::Identity& identity, const SecretOptions& options) {
  Json contents = Json::object();
  for (const auto& [name, file] :
       {std::pair("tls.crt", "cert.pem"), std::pair("tls.key", "key.pem"), std::pair("ca.crt", "ca.pem")}) {
    absl::StatusOr<std::string> content =
        ReadWholeFile(absl::StrCat(options.folder, "/", identity.FolderName(), "/", file), kMaxFileBytes);
    if (!content.ok()) return content.status();
    contents[name] = *std::move(content);
  }
  return SecretOf(absl::StrCat("adaptdl-", identity.service, "-tls"), "kubernetes.io/tls", contents, options);
}

absl::StatusOr<Json> Objects(const std::string& ca, const SecretOptions& options) {
  const absl::StatusOr<std::string> key = GroupKey(options.folder);
  if (!key.ok()) return key.status();
  Json items = Json::array();
  for (const certificates::Identity& identity : Identities(options)) {
    absl::StatusOr<Json> secret = TlsSecretOf(identity, options);
    if (!secret.ok()) return secret.status();
    items.push_back(*std::move(secret));
  }
  items.push_back(SecretOf("adaptdl-group-key", "Opaque", {{"key", *key}}, options));
  // Another one is refused by the API server, and does not slip in.
  items.back()["immutable"] = true;
  items.push_back(ObjectOf("ConfigMap", "adaptdl-ca", options));
  items.back()["data"] = {{"ca.crt", ca}};
  return Json{{"apiVersion", "v1"}, {"kind", "List"}, {"items", std::move(items)}};
}

void TellOfNew(const std::vector<Certificate>& made, const SecretOptions& options) {
  if (made.front().action == Action::kMade) {
    Note(absl::StrCat(options.folder, " has a new authority: for a new cluster, by \"kubectl create -f -\". ",
                      "A cluster that runs with another one would be cut in two; give the folder that it was "
                      "made with. Keep this one, and keep it secret"));
  }
  for (const Certificate& certificate : made) {
    if (certificate.action != Action::kRenewed) continue;
    Note(absl::StrCat("renewed ", certificate.path, "; bring it in by \"kubectl replace -f -\""));
  }
}

absl::StatusOr<int> PrintSecrets(const Context& context, const SecretOptions& options) {
  const absl::StatusOr<std::vector<Certificate>> made =
      certificates::MakeCertificates({.folder = options.folder,
                                      .identities = Identities(options),
                                      .lifetime = absl::Hours(24) * options.days,
                                      .now = context.clock->Now()});
  if (absl::IsInvalidArgument(made.status())) return UsageError(made.status().message());
  if (!made.ok()) return made.status();
  TellOfNew(*made, options);
  const absl::StatusOr<std::string> ca = ReadWholeFile(options.folder + "/ca.pem", kMaxFileBytes);
  if (!ca.ok()) return ca.status();
  if (options.webhook_patch) {
    const Json patch = {
        {"op", "add"}, {"path", "/webhooks/0/clientConfig/caBundle"}, {"value", absl::Base64Escape(*ca)}};
    Print(absl::StrCat(Json::array({patch}).dump(), "\n"));
    return kExitOk;
  }
  const absl::StatusOr<Json> objects = Objects(*ca, options);
  if (!objects.ok()) return objects.status();
  Print(context.format == Format::kJson ? absl::StrCat(objects->dump(2), "\n") : ToYaml(*objects));
  return kExitOk;
}

}  // namespace

void AddKubernetesSecrets(CLI::App& admin, Context* context) {
  CLI::App* command = admin.add_subcommand(
      "kubernetes-secrets", "Print the Secrets of the operator of a Kubernetes cluster, for kubectl");
  const auto options = std::make_shared<SecretOptions>();
  command
      ->add_option("--keys", options->folder,
                   "Folder with the authority, the certificates and the key of groups; made where they lack. "
                   "The same one for as long as the cluster is")
      ->required()
      ->type_name("DIR");
  command->add_option("--namespace", options->name_space, "Namespace of the operator")->capture_default_str();
  command->add_option("--days", options->days, "Days for which new certificates are good")
      ->check(CLI::Range(1, 3650))
      ->capture_default_str();
  command->add_flag("--webhook-patch", options->webhook_patch,
                    "Print instead the JSON patch by which the API server learns who signed the webhook's "
                    "certificate");
  command->callback([context, options] {
    context->action = [context, options] { return PrintSecrets(*context, *options); };
  });
}

}  // namespace adaptdl::cli
