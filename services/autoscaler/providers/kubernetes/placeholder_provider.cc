#include "services/autoscaler/providers/kubernetes/placeholder_provider.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/random_id.h"
#include "libs/kube/json/object.h"
#include "libs/kubejobs/names.h"
#include "libs/kubejobs/placement.h"

namespace adaptdl::autoscaler {
namespace {

using kube::Json;

// Taints by which those who take nodes away say so.
constexpr const char* kLeaving[] = {"ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted",
                                    "karpenter.sh/disruption"};

bool IsLeaving(const Json& object) {
  if (kube::IsBeingDeleted(object)) return true;
  const auto taints = kubejobs::TaintsOf(object);
  return std::any_of(taints.begin(), taints.end(), [](const v1::Taint& taint) {
    return std::find(std::begin(kLeaving), std::end(kLeaving), taint.key()) != std::end(kLeaving);
  });
}

kube::Selection NodesOf(const PlaceholderOptions& options) {
  return {.labels = absl::StrJoin(options.node_selector, ",", absl::PairFormatter("="))};
}

kube::ReflectorOptions ReflectorOptionsOf(const PlaceholderProviderOptions& options) {
  kube::ReflectorOptions reflector;
  reflector.selection = NodesOf(options.placeholders);
  reflector.report = options.report;
  return reflector;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PlaceholderProvider>> PlaceholderProvider::Create(
    const PlaceholderProviderOptions& options, const kube::Client* client, const Clock* clock) {
  if (const absl::Status status = CheckPlaceholders(options.placeholders); !status.ok()) return status;
  return std::unique_ptr<PlaceholderProvider>(new PlaceholderProvider(options, client, clock));
}

PlaceholderProvider::PlaceholderProvider(const PlaceholderProviderOptions& options,
                                         const kube::Client* client, const Clock* clock)
    : options_(options),
      client_(*client),
      clock_(*clock),
      nodes_({.parse = ReadNode}),
      reflector_(client, kube::Collection(kube::Nodes()), ReflectorOptionsOf(options_), &nodes_) {}

PlaceholderProvider::Node PlaceholderProvider::ReadNode(const Json& object) {
  return {kube::KeyOf(object).name, kube::LabelOf(object, kubejobs::kHostNameLabel), IsLeaving(object)};
}

PoolKind PlaceholderProvider::kind() const {
  return {options_.placeholders.node_selector, NodeOfPool(options_.placeholders)};
}

absl::StatusOr<std::vector<Placeholder>> PlaceholderProvider::Placeholders() const {
  const PlaceholderOptions& options = options_.placeholders;
  // Read anew each time: what was made a moment ago must not be made again.
  const auto pods = client_.ListAll(kube::Collection(kube::Pods(), options.name_space),
                                    {.labels = absl::StrCat(kubejobs::kPlaceholderLabel, "=true,",
                                                            kPlaceholderPoolLabel, "=", options.pool)});
  if (!pods.ok()) return pods.status();
  std::vector<Placeholder> placeholders;
  for (const Json& pod : *pods) placeholders.push_back(ReadPlaceholder(pod));
  return placeholders;
}

kube::Cache<PlaceholderProvider::Node>::Value PlaceholderProvider::NodeOf(
    const Placeholder& placeholder) const {
  if (!placeholder.node.empty()) return nodes_.Find({"", placeholder.node});
  if (placeholder.host_name.empty()) return nullptr;
  for (const auto& node : nodes_.All())
    if (node->host_name == placeholder.host_name) return node;
  return nullptr;
}

bool PlaceholderProvider::IsOver(const Placeholder& placeholder) const {
  if (placeholder.has_ended) return true;
  // Of a node that has gone, or goes: no other is made for it.
  const auto node = NodeOf(placeholder);
  return !placeholder.host_name.empty() && (node == nullptr || node->is_leaving);
}

std::string PlaceholderProvider::HindranceOf(const Placeholder& placeholder) const {
  const absl::Duration waits = clock_.Both().wall - placeholder.created;
  if (waits < options_.capacity_deadline) return "";
  return absl::StrCat("waits for a node for ", absl::FormatDuration(absl::Floor(waits, absl::Minutes(1))),
                      ": ",
                      placeholder.unschedulable.empty() ? "nobody has said why" : placeholder.unschedulable);
}

absl::StatusOr<std::vector<ProvidedNode>> PlaceholderProvider::ListNodes() {
  if (!nodes_.synced()) return absl::UnavailableError("the API server has not told the pool's nodes yet");
  const auto placeholders = Placeholders();
  if (!placeholders.ok()) return placeholders.status();
  std::map<std::string, ProvidedNode> listed;
  for (const auto& node : nodes_.All()) {
    const ProvidedState state = node->is_leaving                 ? ProvidedState::kStopping
                                : released_.contains(node->name) ? ProvidedState::kReleased
                                                                 : ProvidedState::kArrived;
    listed[node->name] = {node->name, state};
  }
  std::erase_if(released_, [&](const std::string& name) { return !listed.contains(name); });
  std::erase_if(empty_since_, [&](const auto& entry) { return !listed.contains(entry.first); });
  for (const Placeholder& placeholder : *placeholders) {
    if (IsOver(placeholder)) continue;
    const auto node = NodeOf(placeholder);
    if (node == nullptr) {
      const bool waits = placeholder.node.empty();
      listed[placeholder.name] = {placeholder.name, ProvidedState::kRequested,
                                  waits ? HindranceOf(placeholder) : ""};
    } else if (!node->is_leaving) {
      released_.erase(node->name);
      listed[node->name].state = ProvidedState::kAlive;
    }
  }
  std::vector<ProvidedNode> nodes;
  nodes.reserve(listed.size());
  for (auto& [name, node] : listed) nodes.push_back(std::move(node));
  return nodes;
}

absl::StatusOr<std::string> PlaceholderProvider::Make(const PlaceholderHosts& hosts) const {
  const PlaceholderOptions& options = options_.placeholders;
  const std::string name = absl::StrCat("adaptdl-placeholder-", options.pool, "-", RandomHex(8));
  const auto made =
      client_.Create(kube::Collection(kube::Pods(), options.name_space),
                     MakePlaceholder(options, name, hosts), {.field_manager = kubejobs::kFieldManager});
  if (!made.ok()) return made.status();
  return name;
}

NodePoolProvider::Created PlaceholderProvider::CreateNodes(int count,
                                                           const std::set<std::string>& taken_ids) {
  Created created;
  PlaceholderHosts hosts;
  for (const auto& node : nodes_.All()) {
    if (taken_ids.contains(node->name) && !node->host_name.empty()) hosts.none_of.push_back(node->host_name);
  }
  while (static_cast<int>(created.node_ids.size()) < count) {
    absl::StatusOr<std::string> name = Make(hosts);
    created.status = name.status();
    if (!name.ok()) break;
    created.node_ids.push_back(*std::move(name));
  }
  return created;
}

absl::Status PlaceholderProvider::RestartNode(const std::string& node_id) {
  return absl::UnimplementedError(
      absl::StrCat("node ", node_id, " is the cluster's: nobody but that restarts it"));
}

absl::Status PlaceholderProvider::Delete(const Placeholder& placeholder) const {
  const absl::Status status =
      client_.Delete(kube::ObjectOf(kube::Pods(), {options_.placeholders.name_space, placeholder.name}),
                     {.uid = placeholder.uid, .grace_period = absl::ZeroDuration()});
  // ABORTED: another one has its name by now.
  return absl::IsNotFound(status) || absl::IsAborted(status) ? absl::OkStatus() : status;
}

absl::Status PlaceholderProvider::TerminateNode(const std::string& node_id) {
  const auto placeholders = Placeholders();
  if (!placeholders.ok()) return placeholders.status();
  absl::Status status;
  for (const Placeholder& placeholder : *placeholders) {
    const auto node = NodeOf(placeholder);
    if (placeholder.name == node_id || (node != nullptr && node->name == node_id))
      status.Update(Delete(placeholder));
  }
  if (status.ok() && nodes_.Find({"", node_id}) != nullptr) released_.insert(node_id);
  return status;
}

bool PlaceholderProvider::IsToBeHeld(const KeptNode& node) {
  if (!node.is_empty) {
    empty_since_.erase(node.node_id);
    return false;
  }
  const absl::Time now = clock_.Steady();
  return now >= empty_since_.try_emplace(node.node_id, now).first->second + options_.hold_after;
}

absl::Status PlaceholderProvider::KeepNodes(const std::vector<KeptNode>& nodes) {
  const auto placeholders = Placeholders();
  if (!placeholders.ok()) return placeholders.status();
  absl::Status status;
  std::set<std::string> held;
  size_t unbound = 0;
  for (const Placeholder& placeholder : *placeholders) {
    if (IsOver(placeholder)) {
      status.Update(Delete(placeholder));
    } else if (const auto node = NodeOf(placeholder); node != nullptr) {
      held.insert(node->name);
    } else {
      ++unbound;  // it goes to one of those that nobody holds
    }
  }
  for (const KeptNode& kept : nodes) {
    const auto node = nodes_.Find({"", kept.node_id});
    if (node == nullptr || node->is_leaving) continue;
    released_.erase(kept.node_id);
    if (held.contains(kept.node_id) || !IsToBeHeld(kept)) continue;
    if (unbound > 0) {
      --unbound;
    } else {
      status.Update(Make({.only = node->host_name}).status());
    }
  }
  return status;
}

}  // namespace adaptdl::autoscaler
