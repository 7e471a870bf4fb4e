#include "services/autoscaler/provider_factory.h"

#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/aws/credential_chain.h"
#include "libs/base/file.h"
#include "libs/gcp/metadata_token.h"
#include "libs/gcp/service_account.h"
#include "libs/gcp/tokens.h"
#include "libs/http/http_client.h"
#include "libs/http/pauses.h"
#include "libs/jobspec/placement.h"
#include "libs/service/log.h"
#include "services/autoscaler/providers/aws/fleet_provider.h"
#include "services/autoscaler/providers/aws/group_provider.h"
#include "services/autoscaler/providers/gcp/instance_group_provider.h"
#include "services/autoscaler/providers/kubernetes/placeholder_provider.h"
#include "services/autoscaler/providers/machines/worker_launch.h"

namespace adaptdl::autoscaler {
namespace {

using Made = absl::StatusOr<std::shared_ptr<NodePoolProvider>>;

// Each pool has a folder of its own: its provider is the only one that uses it.
std::string FolderOf(const ProviderFactoryOptions& options, const poolfile::Pool& pool) {
  return absl::StrCat(options.process.state_dir, "/pools/", pool.name);
}

Made MakeProcess(const ProviderFactoryOptions& options, const poolfile::Pool& pool, Clock* clock) {
  ProcessProviderOptions process = options.process;
  if (!process.insecure && process.worker_tls.certificate.empty()) {
    return absl::InvalidArgumentError(
        "workers on this machine prove who they are by --worker-tls-cert and --worker-tls-key: give them");
  }
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

double RandomPart() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return std::uniform_real_distribution<double>(0, 1)(random);
}

// A provider, with what it needs of the world for as long as it lives.
struct AwsPool {
  AwsPool(const std::vector<std::string>& environment, const std::string& region, Clock* clock)
      : credentials(aws::MakeCredentialChain({.environment = aws::VariablesOf(environment), .region = region},
                                             &http, clock, &pauses)) {}

  HttpClient http{{}};
  RealPauses pauses;
  const std::unique_ptr<aws::CredentialSource> credentials;
  std::unique_ptr<NodePoolProvider> provider;
};

// How machines of a cloud run the worker.
absl::StatusOr<WorkerLaunch> LaunchOf(const ProviderFactoryOptions& options, const poolfile::Pool& pool) {
  const ProcessProviderOptions& process = options.process;
  const bool is_gcp = pool.provider == poolfile::Provider::kGcp;
  const poolfile::WorkerProgram& program = is_gcp ? pool.gcp.worker : pool.aws.worker;
  WorkerLaunch launch;
  launch.cloud = is_gcp ? MachineCloud::kGcp : MachineCloud::kAws;
  launch.kind = program.launch == poolfile::Launch::kBinary ? LaunchKind::kBinary : LaunchKind::kContainer;
  launch.image = program.image;
  launch.binary = program.binary;
  launch.supervisor =
      options.advertised_supervisor.empty() ? process.supervisor : options.advertised_supervisor;
  launch.tls_server_name = process.tls_server_name;
  launch.insecure = process.insecure;
  launch.labels = pool.labels;
  launch.labels[kPoolLabel] = pool.name;
  for (const v1::Taint& taint : pool.taints) launch.taints.push_back(jobspec::Describe(taint));
  launch.preemptible = pool.spot;
  launch.gpus = pool.capacity.gpus() > 0;
  for (const poolfile::Mount& mount : pool.mounts)
    launch.mounts.push_back({mount.source, mount.target, mount.type, mount.options});
  // The first is where all nodes find jobs' files.
  if (!pool.mounts.empty() && pool.storage.url.empty()) launch.storage_dir = pool.mounts.front().target;
  for (const auto& [flag, value] :
       {std::pair{"--storage-url", pool.storage.url}, std::pair{"--storage-endpoint", pool.storage.endpoint},
        std::pair{"--storage-region", pool.storage.region}}) {
    if (!value.empty()) launch.arguments.push_back(absl::StrCat(flag, "=", value));
  }
  if (launch.insecure) return launch;
  absl::StatusOr<std::string> ca = ReadWholeFile(process.worker_tls.ca, 1 << 20);
  if (!ca.ok()) return ca.status();
  launch.ca_pem = *std::move(ca);
  return launch;
}

v1::Node NodeOf(const poolfile::Pool& pool) {
  v1::Node node;
  *node.mutable_capacity() = pool.capacity;
  node.set_gpu_type(pool.gpu_type);
  node.mutable_labels()->insert(pool.labels.begin(), pool.labels.end());
  for (const v1::Taint& taint : pool.taints) *node.add_taints() = taint;
  node.set_preemptible(pool.spot);
  return node;
}

Made MakeAws(const ProviderFactoryOptions& options, const poolfile::PoolFile& file,
             const poolfile::Pool& pool, Clock* clock) {
  AwsPoolOptions aws;
  aws.cluster = file.cluster;
  aws.pool = pool.name;
  aws.state_dir = FolderOf(options, pool);
  aws.region = pool.aws.region;
  aws.endpoint = pool.aws.endpoint;
  aws.auto_scaling_group = pool.aws.auto_scaling_group;
  aws.instance_types = pool.instance_types;
  aws.subnets = pool.aws.subnets;
  aws.zones = pool.zones;
  aws.spot = pool.spot;
  aws.launch_template = pool.aws.launch_template;
  aws.image = pool.aws.image;
  aws.security_groups = pool.aws.security_groups;
  aws.key_name = pool.aws.key_name;
  aws.instance_profile = pool.aws.instance_profile;
  constexpr int64_t kGib = int64_t{1} << 30;
  aws.disk_gib = (pool.disk_bytes + kGib - 1) / kGib;
  aws.tags = pool.aws.tags;
  aws.node = NodeOf(pool);
  auto held = std::make_shared<AwsPool>(options.process.environment, aws.region, clock);
  const aws::World world = {&held->http, held->credentials.get(), clock, &held->pauses, RandomPart};
  if (!aws.auto_scaling_group.empty()) {
    auto made = GroupProvider::Create(aws, world);
    if (!made.ok()) return made.status();
    held->provider = *std::move(made);
  } else {
    absl::StatusOr<WorkerLaunch> launch = LaunchOf(options, pool);
    if (!launch.ok()) return launch.status();
    aws.worker = *std::move(launch);
    auto made = FleetProvider::Create(aws, world);
    if (!made.ok()) return made.status();
    held->provider = *std::move(made);
  }
  return Made(std::shared_ptr<NodePoolProvider>(held, held->provider.get()));
}

// A provider, with what it needs of the world for as long as it lives.
struct GcpPool {
  HttpClient http{{.max_body_bytes = size_t{32} << 20}};
  RealPauses pauses;
  std::unique_ptr<gcp::TokenSource> tokens;
  std::unique_ptr<NodePoolProvider> provider;
};

// By the key of a service account, or as the machine that this program runs on. `http` and `clock` outlive what is made.
absl::StatusOr<std::unique_ptr<gcp::TokenSource>> MakeTokens(const std::string& key_file,
                                                             const std::vector<std::string>& environment,
                                                             HttpClient* http, Clock* clock) {
  if (key_file.empty()) {
    const std::string url = gcp::MetadataUrl(aws::VariablesOf(environment)["GCE_METADATA_HOST"]);
    return std::make_unique<gcp::KeptToken>(
        [=](const std::stop_token& stop) { return gcp::FetchMetadataToken(url, http, clock, stop); }, clock);
  }
  const absl::StatusOr<std::string> file = ReadWholeFile(key_file, 64 << 10);
  if (!file.ok()) return file.status();
  const absl::StatusOr<gcp::ServiceAccountKey> key = gcp::ServiceAccountKey::Parse(*file);
  if (!key.ok()) {
    return absl::Status(key.status().code(),
                        absl::StrCat("gcp.credentialsFile ", key_file, ": ", key.status().message()));
  }
  return std::make_unique<gcp::KeptToken>(
      [=, key = *key](const std::stop_token& stop) {
        return gcp::FetchServiceAccountToken(key, http, clock, stop);
      },
      clock);
}

Made MakeGcp(const ProviderFactoryOptions& options, const poolfile::Pool& pool, Clock* clock) {
  GcpPoolOptions gcp;
  gcp.pool = pool.name;
  gcp.state_dir = FolderOf(options, pool);
  gcp.project = pool.gcp.project;
  gcp.zone = pool.gcp.zone;
  gcp.instance_group = pool.gcp.instance_group;
  gcp.endpoint = pool.gcp.endpoint;
  gcp.node = NodeOf(pool);
  auto held = std::make_shared<GcpPool>();
  auto tokens = MakeTokens(pool.gcp.credentials_file, options.process.environment, &held->http, clock);
  if (!tokens.ok()) return tokens.status();
  held->tokens = *std::move(tokens);
  auto made =
      InstanceGroupProvider::Create(gcp, {&held->http, held->tokens.get(), clock, &held->pauses, RandomPart});
  if (!made.ok()) return made.status();
  held->provider = *std::move(made);
  return Made(std::shared_ptr<NodePoolProvider>(held, held->provider.get()));
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
      return MakeAws(options, file, pool, clock);
    case poolfile::Provider::kGcp:
      return MakeGcp(options, pool, clock);
  }
  return absl::UnimplementedError("the provider of this pool is unknown");
}

absl::StatusOr<std::string> UserDataOf(const ProviderFactoryOptions& options, const poolfile::Pool& pool) {
  if (pool.provider != poolfile::Provider::kAws && pool.provider != poolfile::Provider::kGcp) {
    return absl::FailedPreconditionError(absl::StrCat("pool ", pool.name, ": nodes of provider ",
                                                      poolfile::ProviderName(pool.provider),
                                                      " need no user data"));
  }
  const absl::StatusOr<WorkerLaunch> launch = LaunchOf(options, pool);
  if (!launch.ok()) return launch.status();
  return MakeUserData(*launch);
}

}  // namespace adaptdl::autoscaler
