#include "cli/kubernetes/tensorboard.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/kubernetes/cluster.h"
#include "libs/jobfile/names.h"
#include "libs/kube/client/client.h"
#include "libs/kube/json/object.h"
#include "libs/kubejobs/names.h"

namespace adaptdl::cli {
namespace {

constexpr char kLogVolume[] = "logs";

kube::Json Metadata(const std::string& name) {
  return {{"name", TensorboardObjectName(name)}, {"labels", {{kubejobs::kTensorboardLabel, name}}}};
}

// Of what goes with the Deployment.
kube::Json OwnedMetadata(const std::string& name, const kube::Json& owner) {
  kube::Json metadata = Metadata(name);
  metadata["ownerReferences"] = kube::Json::array({{{"apiVersion", Deployments().ApiVersion()},
                                                    {"kind", Deployments().kind},
                                                    {"name", kube::KeyOf(owner).name},
                                                    {"uid", kube::UidOf(owner)}}});
  return metadata;
}

kube::Json Container(const TensorboardOptions& options) {
  return {{"name", "tensorboard"},
          {"image", options.image},
          {"command", {"tensorboard", "--bind_all", absl::StrCat("--logdir=", kTensorboardFolder)}},
          {"ports", kube::Json::array({{{"name", "http"}, {"containerPort", kTensorboardPort}}})},
          {"volumeMounts", kube::Json::array({{{"name", kLogVolume}, {"mountPath", kTensorboardFolder}}})},
          {"resources", {{"requests", {{"cpu", "100m"}, {"memory", "512Mi"}}}}},
          {"securityContext", {{"allowPrivilegeEscalation", false}, {"capabilities", {{"drop", {"ALL"}}}}}}};
}

absl::Status MakeOwned(const Cluster& cluster, const TensorboardOptions& options, const kube::Json& owner) {
  const std::string& space = cluster.name_space();
  const std::string name = TensorboardObjectName(options.name);
  const auto claim =
      cluster.client().Create(kube::Collection(Claims(), space), TensorboardClaim(options, owner), ByUs());
  if (!claim.ok()) return While(absl::StrCat("claim ", space, "/", name), claim.status());
  const auto service = cluster.client().Create(kube::Collection(Services(), space),
                                               TensorboardService(options, owner), ByUs());
  return While(absl::StrCat("service ", space, "/", name), service.status());
}

absl::Status DeleteDeployment(const Cluster& cluster, const std::string& name) {
  return cluster.client().Delete(
      kube::ObjectOf(Deployments(), {cluster.name_space(), TensorboardObjectName(name)}),
      {.propagation = kube::Propagation::kBackground});
}

// By the label that all objects of a TensorBoard have.
absl::StatusOr<std::map<std::string, kube::Json>> ByName(const Cluster& cluster,
                                                         const kube::ResourceType& type) {
  absl::StatusOr<std::vector<kube::Json>> objects = cluster.client().ListAll(
      kube::Collection(type, cluster.name_space()), {.labels = kubejobs::kTensorboardLabel});
  if (!objects.ok()) return While(absl::StrCat("list ", type.plural), objects.status());
  std::map<std::string, kube::Json> by_name;
  for (kube::Json& object : *objects) {
    std::string name = kube::LabelOf(object, kubejobs::kTensorboardLabel);
    by_name[std::move(name)] = std::move(object);
  }
  return by_name;
}

int NodePortOf(const kube::Json& service) {
  const kube::Json& ports = kube::At(service, {"spec", "ports"});
  if (!ports.is_array() || ports.empty()) return 0;
  return static_cast<int>(kube::IntegerAt(ports.front(), {"nodePort"}));
}

}  // namespace

std::string TensorboardObjectName(const std::string& name) {
  return absl::StrCat("adaptdl-tensorboard-", name);
}

kube::Json TensorboardDeployment(const TensorboardOptions& options) {
  const kube::Json labels = {{kubejobs::kTensorboardLabel, options.name}};
  const kube::Json volume = {{"name", kLogVolume},
                             {"persistentVolumeClaim", {{"claimName", TensorboardObjectName(options.name)}}}};
  const kube::Json pod = {{"containers", kube::Json::array({Container(options)})},
                          {"volumes", kube::Json::array({volume})},
                          {"automountServiceAccountToken", false},
                          {"securityContext", {{"seccompProfile", {{"type", "RuntimeDefault"}}}}}};
  return {{"apiVersion", Deployments().ApiVersion()},
          {"kind", Deployments().kind},
          {"metadata", Metadata(options.name)},
          {"spec",
           {{"replicas", 1},
            {"selector", {{"matchLabels", labels}}},
            {"template", {{"metadata", {{"labels", labels}}}, {"spec", pod}}}}}};
}

kube::Json TensorboardClaim(const TensorboardOptions& options, const kube::Json& owner) {
  kube::Json claim = {
      {"apiVersion", "v1"},
      {"kind", "PersistentVolumeClaim"},
      {"metadata", OwnedMetadata(options.name, owner)},
      {"spec",
       {{"accessModes", {"ReadWriteMany"}}, {"resources", {{"requests", {{"storage", options.size}}}}}}}};
  if (!options.storage_class.empty()) claim["spec"]["storageClassName"] = options.storage_class;
  return claim;
}

kube::Json TensorboardService(const TensorboardOptions& options, const kube::Json& owner) {
  return {
      {"apiVersion", "v1"},
      {"kind", "Service"},
      {"metadata", OwnedMetadata(options.name, owner)},
      {"spec",
       {{"type", options.node_port ? "NodePort" : "ClusterIP"},
        {"selector", {{kubejobs::kTensorboardLabel, options.name}}},
        {"ports", kube::Json::array(
                      {{{"name", "http"}, {"port", kTensorboardPort}, {"targetPort", kTensorboardPort}}})}}}};
}

absl::Status CreateTensorboard(const Cluster& cluster, const TensorboardOptions& options) {
  if (absl::Status status = jobfile::CheckLabelName(TensorboardObjectName(options.name), "the name");
      !status.ok())
    return status;
  const std::string what =
      absl::StrCat("deployment ", cluster.name_space(), "/", TensorboardObjectName(options.name));
  const absl::StatusOr<kube::Json> deployment = cluster.client().Create(
      kube::Collection(Deployments(), cluster.name_space()), TensorboardDeployment(options), ByUs());
  if (!deployment.ok()) return While(what, deployment.status());
  absl::Status status = MakeOwned(cluster, options, *deployment);
  if (status.ok()) return status;
  const absl::Status undone = DeleteDeployment(cluster, options.name);
  if (undone.ok()) return status;
  return While(absl::StrCat(what, " stays, as it could not be deleted (", undone.message(), ")"), status);
}

absl::Status DeleteTensorboard(const Cluster& cluster, const std::string& name) {
  return While(absl::StrCat("deployment ", cluster.name_space(), "/", TensorboardObjectName(name)),
               DeleteDeployment(cluster, name));
}

absl::StatusOr<std::vector<TensorboardState>> ListTensorboards(const Cluster& cluster) {
  const auto deployments = ByName(cluster, Deployments());
  if (!deployments.ok()) return deployments.status();
  const auto claims = ByName(cluster, Claims());
  if (!claims.ok()) return claims.status();
  const auto services = ByName(cluster, Services());
  if (!services.ok()) return services.status();
  std::vector<TensorboardState> states;
  for (const auto& [name, deployment] : *deployments) {
    TensorboardState state = {.name = name, .size = ""};
    state.replicas = static_cast<int>(kube::IntegerAt(deployment, {"spec", "replicas"}));
    state.ready = static_cast<int>(kube::IntegerAt(deployment, {"status", "readyReplicas"}));
    if (const auto claim = claims->find(name); claim != claims->end()) {
      state.size = kube::TextAt(claim->second, {"spec", "resources", "requests", "storage"});
    }
    if (const auto service = services->find(name); service != services->end()) {
      state.node_port = NodePortOf(service->second);
    }
    states.push_back(std::move(state));
  }
  return states;
}

}  // namespace adaptdl::cli
