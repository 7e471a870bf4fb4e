#include "services/autoscaler/provider_factory.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/jobspec/placement.h"
#include "libs/service/log.h"
#include "services/autoscaler/providers/kubernetes/placeholder_provider.h"

namespace adaptdl::autoscaler {
namespace {

using Made = absl::StatusOr<std::shared_ptr<NodePoolProvider>>;

// Each pool has a folder of its own: its provider is the only one that uses it.
std::string FolderOf(const ProviderFactoryOptions& options, const poolfile::Pool& pool) {
  return absl::StrCat(options.process.state_dir, "/pools/", pool.name);
}

Made MakeProcess(const ProviderFactoryOptions& options, const poolfile::Pool& pool, Clock* clock) {
  ProcessProviderOptions process = options.process;
  process.pool = pool.name;
  process.state_dir = FolderOf(options, pool);
  process.labels = pool.labels;
  for (const v1::Taint& taint : pool.taints) process.taints.push_back(jobspec::Describe(taint));
  process.preemptible = pool.spot;
  process.worker_cpus = pool.process.worker_cpus;
  process.worker_memory_bytes = pool.process.worker_memory_bytes;
  auto provider = ProcessProvider::Create(process, clock);
  if (!provider.ok()) return provider.status();
  return std::shared_ptr<NodePoolProvider>(*std::move(provider));
}

// Requests of a container.
kube::Json ToRequests(const v1::Resources& capacity) {
  kube::Json requests = kube::Json::object();
  if (capacity.cpu_millis() > 0) requests["cpu"] = absl::StrCat(capacity.cpu_millis(), "m");
  if (capacity.memory_bytes() > 0) requests["memory"] = absl::StrCat(capacity.memory_bytes());
  if (capacity.gpus() > 0) requests["nvidia.com/gpu"] = absl::StrCat(capacity.gpus());
  for (const auto& [name, amount] : capacity.extended()) requests[name] = absl::StrCat(amount);
  return requests;
}

kube::Json ToTolerations(const std::vector<v1::Toleration>& tolerations) {
  kube::Json list = kube::Json::array();
  for (const v1::Toleration& toleration : tolerations) {
    kube::Json entry = {{"operator", toleration.any_value() ? "Exists" : "Equal"}};
    if (!toleration.key().empty()) entry["key"] = toleration.key();
    if (!toleration.any_value()) entry["value"] = toleration.value();
    if (toleration.effect() == v1::TAINT_EFFECT_NO_SCHEDULE) entry["effect"] = "NoSchedule";
    if (toleration.effect() == v1::TAINT_EFFECT_NO_EXECUTE) entry["effect"] = "NoExecute";
    if (toleration.effect() == v1::TAINT_EFFECT_PREFER_NO_SCHEDULE) entry["effect"] = "PreferNoSchedule";
    list.push_back(std::move(entry));
  }
  return list;
}

// Holds the way to its cluster for as long as it lives.
class KubernetesPool final : public NodePoolProvider {
 public:
  KubernetesPool(std::unique_ptr<KubeWay> way, std::unique_ptr<PlaceholderProvider> provider)
      : way_(std::move(way)), provider_(std::move(provider)) {}

  absl::string_view name() const override { return provider_->name(); }
  PoolKind kind() const override { return provider_->kind(); }
  bool ends_nodes_gently() const override { return provider_->ends_nodes_gently(); }
  absl::StatusOr<std::vector<ProvidedNode>> ListNodes() override { return provider_->ListNodes(); }
  Created CreateNodes(int count, const std::set<std::string>& taken_ids) override {
    return provider_->CreateNodes(count, taken_ids);
  }
  absl::Status RestartNode(const std::string& node_id) override { return provider_->RestartNode(node_id); }
  absl::Status TerminateNode(const std::string& node_id) override {
    return provider_->TerminateNode(node_id);
  }
  absl::Status KeepNodes(const std::vector<KeptNode>& nodes) override { return provider_->KeepNodes(nodes); }

 private:
  const std::unique_ptr<KubeWay> way_;
  const std::unique_ptr<PlaceholderProvider> provider_;
};

Made MakeKubernetes(const ProviderFactoryOptions& options, const poolfile::Pool& pool, Clock* clock) {
  PlaceholderProviderOptions provider;
  PlaceholderOptions& placeholders = provider.placeholders;
  placeholders.pool = pool.name;
  placeholders.name_space = pool.kubernetes.name_space;
  placeholders.node_selector = pool.kubernetes.node_selector;
  placeholders.node_labels = pool.labels;
  placeholders.node_resources = ToRequests(pool.capacity);
  if (!pool.kubernetes.tolerations.empty())
    placeholders.tolerations = ToTolerations(pool.kubernetes.tolerations);
  placeholders.image = pool.kubernetes.placeholder_image;
  placeholders.priority_class = pool.kubernetes.placeholder_priority_class;
  provider.capacity_deadline = pool.kubernetes.capacity_deadline;
  provider.report = [](const absl::Status& status) {
    log::Warning("the API server", {{"error", status.ToString()}});
  };
  kube::AccessOptions access;
  access.kubeconfig = pool.kubernetes.kubeconfig;
  access.context = pool.kubernetes.context;
  auto way = KubeWay::Find(access, options.kube_timeout);
  if (!way.ok()) return way.status();
  auto made = PlaceholderProvider::Create(provider, (*way)->client(), clock);
  if (!made.ok()) return made.status();
  return std::make_shared<KubernetesPool>(*std::move(way), *std::move(made));
}

}  // namespace

absl::StatusOr<std::unique_ptr<KubeWay>> KubeWay::Find(const kube::AccessOptions& access,
                                                       absl::Duration timeout) {
  absl::StatusOr<kube::Access> found = kube::FindAccess(access);
  if (!found.ok()) return found.status();
  auto session = kube::Session::Create(
      *std::move(found), {.user_agent = "adaptdl-autoscaler", .timeout = timeout, .patience = timeout});
  if (!session.ok()) return session.status();
  return std::unique_ptr<KubeWay>(new KubeWay(*std::move(session)));
}

Made MakeProvider(const ProviderFactoryOptions& options, const poolfile::PoolFile& file,
                  const poolfile::Pool& pool, Clock* clock) {
  switch (pool.provider) {
    case poolfile::Provider::kProcess:
      return MakeProcess(options, pool, clock);
    case poolfile::Provider::kKubernetes:
      return MakeKubernetes(options, pool, clock);
    case poolfile::Provider::kAws:
    case poolfile::Provider::kGcp:
      break;
  }
  return absl::UnimplementedError(absl::StrCat("provider ", poolfile::ProviderName(pool.provider),
                                               " of cluster ", file.cluster,
                                               " is not offered by this build"));
}

}  // namespace adaptdl::autoscaler
