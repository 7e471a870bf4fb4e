#include "services/autoscaler/providers/gcp/instance_group_provider.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/random_id.h"
#include "libs/gcp/errors.h"

namespace adaptdl::autoscaler {
namespace {

// Of one call.
constexpr int kMostAtOnce = 500;
// Machines that are asked about in a round; the others are in the next one.
constexpr int kMostDetailsARound = 100;
// Of the record of a creation: the name of a machine; the operation that makes them.
constexpr char kNameParameter[] = "name";
constexpr char kOperationParameter[] = "operation";

std::vector<std::string> ValuesOf(const Creation& creation, absl::string_view parameter) {
  std::vector<std::string> values;
  for (const auto& [name, value] : creation.parameters) {
    if (name == parameter) values.push_back(value);
  }
  return values;
}

// Names of machines have at most 63 characters, and begin with a letter.
std::string InstanceName(const std::string& pool, const std::string& key, int index) {
  std::string part = pool.substr(0, 30);
  while (absl::EndsWith(part, "-")) part.pop_back();
  return absl::StrCat("adaptdl-", part, "-", key.substr(0, 16), "-", index);
}

// The key, 32 hexadecimal digits, as a UUID of random numbers.
std::string UuidOf(std::string key) {
  key[12] = '4';
  key[16] = '8';
  return absl::StrCat(key.substr(0, 8), "-", key.substr(8, 4), "-", key.substr(12, 4), "-", key.substr(16, 4),
                      "-", key.substr(20, 12));
}

ProvidedState StateOf(const ManagedInstance& instance) {
  const std::string& action = instance.action;
  if (action == "DELETING" || action == "ABANDONING" || action == "STOPPING" || action == "SUSPENDING")
    return ProvidedState::kStopping;
  // "CREATING", "CREATING_WITHOUT_RETRIES", "CREATING_ATOMICALLY"; "RECREATING": it comes again under its name.
  if (absl::StartsWith(action, "CREATING") || action == "RECREATING") return ProvidedState::kRequested;
  const std::string& status = instance.status;
  if (status == "RUNNING" || status == "REPAIRING") return ProvidedState::kAlive;
  if (status.empty() || status == "PROVISIONING" || status == "STAGING" || status == "PENDING")
    return ProvidedState::kRequested;
  return ProvidedState::kStopping;
}

}  // namespace

absl::StatusOr<std::unique_ptr<InstanceGroupProvider>> InstanceGroupProvider::Create(
    const GcpPoolOptions& options, const gcp::World& world) {
  if (const absl::Status status = CheckGcpPoolOptions(options); !status.ok()) return status;
  auto journal = CreationJournal::Open(options.state_dir + "/creations");
  if (!journal.ok()) return journal.status();
  return std::unique_ptr<InstanceGroupProvider>(
      new InstanceGroupProvider(options, world, *std::move(journal)));
}

absl::Status InstanceGroupProvider::Reconcile(const std::vector<ManagedInstance>& instances) {
  std::set<std::string> seen;
  for (const ManagedInstance& instance : instances) seen.insert(instance.name);
  const std::map<std::string, Creation> open = journal_->open();
  for (const auto& [key, creation] : open) {
    if (const absl::Status status = ReconcileOne(creation, seen); !status.ok()) return status;
  }
  std::erase_if(failed_, [&](const auto& entry) { return !journal_->open().contains(entry.first); });
  return absl::OkStatus();
}

absl::Status InstanceGroupProvider::ReconcileOne(const Creation& before, const std::set<std::string>& seen) {
  Creation creation = before;
  if (!creation.answered) {
    const std::vector<std::string> names = ValuesOf(creation, kNameParameter);
    creation.unseen = {names.begin(), names.end()};
    creation.answered =
        std::any_of(names.begin(), names.end(), [&](const std::string& name) { return seen.contains(name); });
  }
  for (const std::string& name : seen) creation.unseen.erase(name);
  if (creation.unseen.empty() || world_.clock->Now() - creation.time > kLongestUnseen)
    return journal_->Close(creation.key);
  if (!creation.answered) {
    const absl::Status status = Call(before);
    // Refused for good: nothing was made.
    return journal_->open().contains(creation.key) ? status : absl::OkStatus();
  }
  if (!(creation == before)) {
    if (const absl::Status status = journal_->Write(creation); !status.ok()) return status;
  }
  return LookAtOperation(creation);
}

absl::Status InstanceGroupProvider::LookAtOperation(const Creation& creation) {
  if (failed_.contains(creation.key)) return absl::OkStatus();
  for (const std::string& operation : ValuesOf(creation, kOperationParameter)) {
    absl::StatusOr<std::string> failure = group_.FailureOf(operation);
    if (!failure.ok()) return failure.status();
    if (!failure->empty()) failed_[creation.key] = *std::move(failure);
  }
  return absl::OkStatus();
}

absl::Status InstanceGroupProvider::Call(Creation creation) {
  const std::vector<std::string> names = ValuesOf(creation, kNameParameter);
  const absl::StatusOr<std::string> operation = group_.Create(names, UuidOf(creation.key));
  if (!operation.ok() && !absl::IsAlreadyExists(operation.status())) {
    if (!gcp::LeavesOpen(operation.status())) journal_->Close(creation.key).IgnoreError();
    return operation.status();
  }
  creation.answered = true;
  creation.unseen = {names.begin(), names.end()};
  if (operation.ok() && !operation->empty())
    creation.parameters.emplace_back(kOperationParameter, *operation);
  return journal_->Write(creation);
}

absl::Status InstanceGroupProvider::AskForDetails(const std::vector<ManagedInstance>& instances) {
  std::set<std::string> present;
  int asked = 0;
  for (const ManagedInstance& instance : instances) {
    present.insert(instance.id);
    if (instance.id.empty() || details_.contains(instance.id) || StateOf(instance) != ProvidedState::kAlive ||
        asked == kMostDetailsARound)
      continue;
    ++asked;
    absl::StatusOr<InstanceDetails> details = group_.Describe(instance.name);
    // It has ended meanwhile.
    if (absl::IsNotFound(details.status())) continue;
    if (!details.ok()) return details.status();
    if (!details->address.empty()) details_[instance.id] = *std::move(details);
  }
  std::erase_if(details_, [&](const auto& entry) { return !present.contains(entry.first); });
  return absl::OkStatus();
}

ProvidedNode InstanceGroupProvider::NodeOfInstance(const ManagedInstance& instance) const {
  ProvidedNode node = {.node_id = instance.name, .state = StateOf(instance)};
  if (node.state == ProvidedState::kRequested) node.hindrance = instance.failure;
  // One that is made again has another number then.
  if (node.state != ProvidedState::kRequested || instance.action != "RECREATING")
    node.instance_id = instance.id;
  const auto details = details_.find(node.instance_id);
  if (details == details_.end()) return node;
  node.address = details->second.address;
  node.create_time = details->second.create_time;
  return node;
}

absl::StatusOr<std::vector<ProvidedNode>> InstanceGroupProvider::ListNodes() {
  const absl::StatusOr<std::vector<ManagedInstance>> instances = group_.List();
  if (!instances.ok()) return instances.status();
  if (const absl::Status status = Reconcile(*instances); !status.ok()) return status;
  if (const absl::Status status = AskForDetails(*instances); !status.ok()) return status;
  std::map<std::string, ProvidedNode> nodes;
  for (const auto& [key, creation] : journal_->open()) {
    const auto failed = failed_.find(key);
    for (const std::string& name : creation.unseen) {
      nodes[name] = {.node_id = name,
                     .state = ProvidedState::kRequested,
                     .hindrance = failed == failed_.end() ? "" : failed->second};
    }
  }
  for (const ManagedInstance& instance : *instances) nodes[instance.name] = NodeOfInstance(instance);
  std::vector<ProvidedNode> listed;
  for (auto& [name, node] : nodes) listed.push_back(std::move(node));
  return listed;
}

NodePoolProvider::Created InstanceGroupProvider::CreateSome(int count) {
  Creation creation{.key = RandomHex(16), .count = count, .time = world_.clock->Now()};
  Created created;
  for (int k = 0; k < count; ++k) {
    created.node_ids.push_back(InstanceName(options_.pool, creation.key, k));
    creation.parameters.emplace_back(kNameParameter, created.node_ids.back());
  }
  if (const absl::Status status = journal_->Write(creation); !status.ok()) return {{}, status};
  if (const absl::Status status = Call(std::move(creation)); !status.ok()) return {{}, status};
  return created;
}

NodePoolProvider::Created InstanceGroupProvider::CreateNodes(int count,
                                                             const std::set<std::string>& /*taken_ids*/) {
  Created created;
  while (static_cast<int>(created.node_ids.size()) < count && created.status.ok()) {
    const int missing = count - static_cast<int>(created.node_ids.size());
    Created some = CreateSome(std::min(missing, kMostAtOnce));
    created.node_ids.insert(created.node_ids.end(), some.node_ids.begin(), some.node_ids.end());
    created.status = some.status;
  }
  return created;
}

absl::Status InstanceGroupProvider::RestartNode(const std::string& node_id) {
  return absl::UnimplementedError(absl::StrCat("the group of machine ", node_id, " makes it again itself"));
}

const Creation* InstanceGroupProvider::CreationOfUnseen(const std::string& node_id) const {
  for (const auto& [key, creation] : journal_->open()) {
    if (creation.unseen.contains(node_id)) return &creation;
  }
  return nullptr;
}

absl::Status InstanceGroupProvider::TerminateNode(const std::string& node_id) {
  if (CreationOfUnseen(node_id) != nullptr) {
    // It may have come since the last look.
    const absl::StatusOr<std::vector<ManagedInstance>> instances = group_.List();
    if (!instances.ok()) return instances.status();
    if (const absl::Status status = Reconcile(*instances); !status.ok()) return status;
  }
  const Creation* unseen = CreationOfUnseen(node_id);
  if (unseen == nullptr) return group_.Delete(node_id);
  if (!failed_.contains(unseen->key)) {
    return absl::UnavailableError(
        absl::StrCat("Google Cloud does not show machine ", node_id, " yet; it is ended when it does"));
  }
  Creation creation = *unseen;
  creation.unseen.erase(node_id);
  return creation.unseen.empty() ? journal_->Close(creation.key) : journal_->Write(creation);
}

}  // namespace adaptdl::autoscaler
