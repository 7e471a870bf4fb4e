#include "services/supervisor/kubernetes_flags.h"

#include <string>
#include <utility>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "CLI/Validators.hpp"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"
#include "libs/kube/json/json.h"
#include "libs/service/flags.h"

namespace adaptdl::supervisor {
namespace {

constexpr int64_t kMaxCertificateBytes = int64_t{1} << 20;

absl::StatusOr<kube::Json> ParseFlag(const std::string& flag, const std::string& text) {
  if (text.empty()) return kube::Json();
  absl::StatusOr<kube::Json> json = kube::ParseJson(text);
  if (json.ok()) return json;
  return absl::InvalidArgumentError(absl::StrCat(flag, ": is no JSON: ", json.status().message()));
}

absl::Status ReadPatches(const std::string& flag, const std::string& text, kube::Json* patches) {
  absl::StatusOr<kube::Json> parsed = ParseFlag(flag, text);
  if (!parsed.ok()) return parsed.status();
  *patches = *std::move(parsed);
  return kubejobs::CheckPatches(flag, *patches);
}

absl::Status CheckWebhook(const AdmissionWebhookOptions& webhook) {
  if (webhook.server.listen.empty()) return absl::OkStatus();
  if (!webhook.server.certificate_file.empty() && !webhook.server.key_file.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--webhook-listen needs --webhook-cert and --webhook-key: the API server calls webhooks by TLS only");
}

}  // namespace

void AddKubernetesFlags(CLI::App& app, KubernetesFlags* flags) {
  KubernetesOptions& options = flags->options;
  const std::string group = "Kubernetes (--backend kubernetes)";
  const auto add = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->capture_default_str()->group(group);
  };
  add("--kubeconfig", options.access.kubeconfig,
      "How to reach the cluster [$KUBECONFIG, or the pod that this runs in]");
  add("--kube-context", options.access.context, "Context of it [its current one]");
  add("--namespace", options.name_space, "Namespace of the jobs (empty: all)");
  add("--own-namespace", options.own_namespace, "Namespace of the Lease by which supervisors elect a leader");
  add("--lease-name", options.lease_name, "Name of that Lease");
  add("--own-pod", options.own_pod,
      "Name of the pod that this runs in, which gets the label adaptdl.petuum.com/leads=true while it leads "
      "(empty: it does not)");
  add("--group-key-file", options.group_key_file,
      "File with at least 32 secret bytes, the same for all supervisors of the cluster; the secrets of "
      "groups are made of it");
  add("--replica-supervisor-address", options.pods.supervisor_address,
      "HOST:PORT at which replicas reach the supervisor, or of several, separated by commas");
  add("--replica-ca", flags->replica_ca_file,
      "Certificates, in PEM, that replicas verify the supervisor's with (empty: no TLS)");
  add("--replica-tls-server-name", options.pods.supervisor_tls_name,
      "Name that the supervisor's certificate must have [supervisor.adaptdl]");
  add("--default-resources", flags->default_resources,
      "Resources of first containers that say nothing of their kind, as JSON");
  add("--patch-pods", flags->patch_pods, "JSON patch (RFC 6902) of each replica's pod");
  add("--patch-containers", flags->patch_containers, "JSON patch of each of its containers");
  add("--checkpoint-storage-class", options.claims.storage_class,
      "Storage class, with ReadWriteMany, of a claim for each job's checkpoints (empty: jobs bring their "
      "own)");
  add("--checkpoint-storage-size", options.claims.size, "Size of each of these claims");
  add("--user-audience", options.user_audience,
      "Whom the tokens are for by which users of the cluster call (kubectl create token NAME --audience "
      "...)");
  add("--keep-pods", flags->keep_pods,
      "Pods of ended replicas that stay until their job goes: none, failed or all")
      ->check(CLI::IsMember({"none", "failed", "all"}));
  add("--keep-log-bytes", options.keep_log_bytes,
      "How much of each replica's output is kept in --state-dir when its pod goes, the last so many bytes; "
      "0: none")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 26));
  add("--webhook-listen", flags->webhook.server.listen,
      "host:port at which the API server asks about AdaptDLJobs before it keeps them, over HTTPS "
      "(empty: it does not)");
  add("--webhook-cert", flags->webhook.server.certificate_file,
      "Certificate for that, in PEM, with those up to its authority");
  add("--webhook-key", flags->webhook.server.key_file, "Its private key, in PEM");
  add("--webhook-operator", flags->webhook.operator_name,
      "Who alone may write statuses, such as system:serviceaccount:adaptdl:adaptdl-supervisor (empty: "
      "whoever the cluster's roles let)");
  const auto add_duration = [&](const char* name, absl::Duration* value, const char* help) {
    service::AddDurationFlag(app, name, value, help, absl::Milliseconds(10))->group(group);
  };
  add_duration("--election-duration", &options.lease_duration,
               "How long the leader's Lease lasts without renewal, in whole seconds");
  add_duration("--node-grace", &options.node_grace,
               "How long a node may be not ready until it counts as lost");
  add_duration("--unschedulable-deadline", &options.node_pods.unschedulable_deadline,
               "How long a replica's pod may find no room until the job is decided anew");
  add_duration(
      "--image-deadline", &options.node_pods.start_deadline,
      "How long its image may not be had, or its containers not be started, until the replica has failed");
}

absl::StatusOr<KubernetesOptions> Interpret(const KubernetesFlags& flags) {
  KubernetesOptions options = flags.options;
  if (options.group_key_file.empty()) {
    return absl::InvalidArgumentError(
        "--group-key-file is needed with --backend kubernetes; make one by "
        "\"openssl rand -hex 32\", and keep it in a Secret");
  }
  if (options.pods.supervisor_address.empty()) {
    return absl::InvalidArgumentError(
        "--replica-supervisor-address is needed with --backend kubernetes, such as "
        "adaptdl-supervisor.adaptdl:7100");
  }
  if (const absl::Status status = CheckWebhook(flags.webhook); !status.ok()) return status;
  if (!flags.replica_ca_file.empty()) {
    absl::StatusOr<std::string> pem = ReadWholeFile(flags.replica_ca_file, kMaxCertificateBytes);
    if (!pem.ok())
      return absl::Status(pem.status().code(), absl::StrCat("--replica-ca: ", pem.status().message()));
    options.pods.supervisor_ca_pem = *std::move(pem);
  }
  absl::StatusOr<kube::Json> resources = ParseFlag("--default-resources", flags.default_resources);
  if (!resources.ok()) return resources.status();
  options.pods.default_resources = *std::move(resources);
  absl::Status status = ReadPatches("--patch-pods", flags.patch_pods, &options.pods.pod_patches);
  status.Update(ReadPatches("--patch-containers", flags.patch_containers, &options.pods.container_patches));
  if (!status.ok()) return status;
  options.keep_pods = flags.keep_pods == "none"  ? KeepPods::kNone
                      : flags.keep_pods == "all" ? KeepPods::kAll
                                                 : KeepPods::kFailed;
  return options;
}

}  // namespace adaptdl::supervisor
