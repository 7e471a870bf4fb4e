#include "services/autoscaler/pool_keeper.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/service/log.h"

namespace adaptdl::autoscaler {
namespace {

using nodepools::NodePhase;
using nodepools::Pool;
using nodepools::PoolAction;
using nodepools::PoolActionKind;
using nodepools::PoolDecision;
using nodepools::PoolNode;

const PoolNode* Find(const Pool& pool, const std::string& id) {
  const auto found =
      std::find_if(pool.nodes.begin(), pool.nodes.end(), [&](const PoolNode& node) { return node.id == id; });
  return found == pool.nodes.end() ? nullptr : &*found;
}

// Forgets what is not in `present`.
template <typename Map>
void KeepOnly(const std::set<std::string>& present, Map* map) {
  std::erase_if(*map, [&](const auto& entry) { return !present.contains(entry.first); });
}

}  // namespace

PoolKeeper::PoolKeeper(const KeeperOptions& options, const Dependencies& dependencies)
    : options_(options),
      with_(dependencies),
      backoff_(options.restart),
      refusals_(options.refusals),
      last_change_(dependencies.clock->Steady()) {}

std::optional<absl::Time> PoolKeeper::FirstSeen(const std::string& node_id) const {
  const auto found = seen_.find(node_id);
  if (found == seen_.end()) return std::nullopt;
  return found->second;
}

ObservedPool PoolKeeper::Look(const ManagedPool& pool) {
  ObservedPool observed;
  observed.name = pool.name;
  observed.kind = pool.provider->kind();
  absl::StatusOr<std::vector<ProvidedNode>> provided = pool.provider->ListNodes();
  if (!provided.ok()) {
    NoteError(pool.name, "provider", "the provider can't list its nodes", provided.status());
    observed.answered = false;
    observed.provided = last_provided_;
    return observed;
  }
  observed.provided = *std::move(provided);
  last_provided_ = observed.provided;
  std::set<std::string> present;
  std::string hindrance;
  for (const ProvidedNode& node : observed.provided) {
    present.insert(node.node_id);
    seen_.try_emplace(node.node_id, with_.clock->Now());
    if (node.state == ProvidedState::kRequested && hindrance.empty()) hindrance = node.hindrance;
  }
  KeepOnly(present, &seen_);
  // Whoever makes nodes says so only after a while.
  const std::optional<nodepools::Refusals::Refusal> refusal = refusals_.Of(pool.name);
  const bool is_over = !refusal.has_value() || refusal->until <= with_.clock->Now();
  if (!hindrance.empty() && is_over) Refuse(pool, absl::ResourceExhaustedError(hindrance));
  return observed;
}

void PoolKeeper::ForgetGone(const ManagedPool& pool, const ObservedPool& observed,
                            std::vector<v1::Node>* registered) {
  if (pool.provider->ends_nodes_gently() || !observed.answered) return;
  for (const std::string& node_id : NodesToForget(observed, *registered)) {
    const absl::Status status = with_.cluster->RemoveNode(node_id);
    if (status.ok()) {
      std::erase_if(*registered, [&](const v1::Node& node) { return node.node_id() == node_id; });
    } else if (!absl::IsFailedPrecondition(status)) {
      // (That would mean that it changed meanwhile; the next round sees it as it is.)
      NoteError(pool.name, "supervisor", absl::StrCat("remove node ", node_id), status);
    }
  }
}

void PoolKeeper::Measure(const ObservedPool& observed, const std::vector<PoolNode>& nodes) {
  std::set<std::string> present;
  for (const ProvidedNode& node : observed.provided) present.insert(node.node_id);
  for (const PoolNode& node : nodes) {
    const auto awaited = awaited_.find(node.id);
    if (awaited == awaited_.end() || node.phase != NodePhase::kRunning) continue;
    const absl::Duration took = with_.clock->Steady() - awaited->second;
    // The latest weigh most.
    start_time_ = start_time_.has_value() ? (*start_time_ + took) / 2 : took;
    awaited_.erase(awaited);
  }
  KeepOnly(present, &awaited_);
}

Pool PoolKeeper::View(const ManagedPool& pool, const ObservedPool& observed,
                      const std::vector<v1::Node>& registered, const std::set<std::string>& idle) {
  Pool view;
  view.name = pool.name;
  view.price_per_hour = pool.price_per_hour.value_or(-1);
  view.preemptible = pool.preemptible;
  view.min_nodes = pool.min_nodes;
  view.max_nodes = pool.max_nodes;
  view.nodes = NodesOf(observed, registered, idle);
  // The deciding code goes by the wall clock, by which there may be a deadline.
  view.last_change = with_.clock->Both().ToWall(last_change_);
  if (const auto refusal = refusals_.Of(pool.name); refusal.has_value()) view.refused_until = refusal->until;
  Measure(observed, view.nodes);
  view.start_time = start_time_.value_or(pool.start_time);
  return view;
}

void PoolKeeper::Refuse(const ManagedPool& pool, const absl::Status& status) {
  lacks_capacity_ = absl::IsResourceExhausted(status);
  refusals_.Refused(pool.name, std::string(status.message()), with_.clock->Now());
  const absl::Duration pause = refusals_.Of(pool.name)->until - with_.clock->Now();
  with_.events->Add(with_.clock->Now(), pool.name,
                    lacks_capacity_ ? "InsufficientCapacity" : "ProviderFailed",
                    absl::StrCat(status.message(), "; asked again in ", absl::FormatDuration(pause)), {});
}

void PoolKeeper::Create(const ManagedPool& pool, const PoolDecision& decision,
                        const std::set<std::string>& taken_ids, bool* changed) {
  if (decision.create == 0) return;
  const NodePoolProvider::Created created = pool.provider->CreateNodes(decision.create, taken_ids);
  for (const std::string& id : created.node_ids) {
    backoff_.Started(id, with_.clock->Steady());
    awaited_.try_emplace(id, with_.clock->Steady());
    with_.metrics->CountAction(pool.name, "start");
  }
  if (!created.node_ids.empty()) {
    *changed = true;
    refusals_.Gave(pool.name);
    with_.events->Add(with_.clock->Now(), pool.name, "Grow", decision.reason, created.node_ids);
  }
  if (created.status.ok()) return;
  NoteError(pool.name, "provider", "start another node", created.status);
  Refuse(pool, created.status);
}

absl::Status PoolKeeper::Act(const ManagedPool& pool, const Pool& view, const PoolAction& action) {
  const PoolNode* node = Find(view, action.node_id);
  if (action.kind == PoolActionKind::kRemove) return pool.provider->TerminateNode(action.node_id);
  // Who takes it away drains it; nobody takes one that works.
  if (pool.provider->ends_nodes_gently() && node != nullptr && node->empty)
    return pool.provider->TerminateNode(action.node_id);
  return with_.cluster->DrainNode(action.node_id, absl::StrCat("node pool ", pool.name, ": ", action.reason));
}

void PoolKeeper::EndLongDrains(const ManagedPool& pool, const PoolSet& set, const Pool& view) {
  std::set<std::string> draining;
  for (const PoolNode& node : view.nodes) {
    if (node.phase != NodePhase::kDraining) continue;
    draining.insert(node.id);
    const auto since = draining_since_.try_emplace(node.id, with_.clock->Steady()).first->second;
    if (!set.drain_timeout.has_value() || node.empty || with_.clock->Steady() - since < *set.drain_timeout)
      continue;
    const absl::Status status = pool.provider->TerminateNode(node.id);
    if (!status.ok()) {
      NoteError(pool.name, "provider", absl::StrCat("remove node ", node.id), status);
      continue;
    }
    with_.metrics->CountAction(pool.name, "remove");
    with_.events->Add(with_.clock->Now(), pool.name, "Remove",
                      absl::StrCat("drains for longer than ", absl::FormatDuration(*set.drain_timeout)),
                      {node.id});
  }
  KeepOnly(draining, &draining_since_);
}

void PoolKeeper::Execute(const ManagedPool& pool, const PoolSet& set, const ObservedPool& observed,
                         const Pool& view, const PoolDecision& decision,
                         const std::set<std::string>& taken_ids) {
  RestartDead(pool, observed, view, decision);
  bool changed = false;
  Create(pool, decision, taken_ids, &changed);
  std::map<std::string, std::vector<std::string>> done;  // by event
  for (const PoolAction& action : decision.actions) {
    const std::string kind(nodepools::PoolActionKindName(action.kind));
    const absl::Status status = Act(pool, view, action);
    if (!status.ok()) {
      NoteError(pool.name, action.kind == PoolActionKind::kDrain ? "supervisor" : "provider",
                absl::StrCat(kind, " node ", action.node_id), status);
      continue;
    }
    changed = true;
    with_.metrics->CountAction(pool.name, kind);
    with_.events->Add(with_.clock->Now(), pool.name,
                      action.kind == PoolActionKind::kDrain ? "Drain" : "Remove", action.reason,
                      {action.node_id});
  }
  if (changed && decision.changes_size) last_change_ = with_.clock->Steady();
  EndLongDrains(pool, set, view);
  Keep(pool, view, decision);
}

void PoolKeeper::Keep(const ManagedPool& pool, const Pool& view, const PoolDecision& decision) {
  std::set<std::string> given_up;
  for (const PoolAction& action : decision.actions) given_up.insert(action.node_id);
  std::vector<KeptNode> kept;
  for (const PoolNode& node : view.nodes) {
    if (node.phase == NodePhase::kRunning && !given_up.contains(node.id))
      kept.push_back({node.id, node.empty});
  }
  const absl::Status status = pool.provider->KeepNodes(kept);
  if (!status.ok()) NoteError(pool.name, "provider", "keep nodes", status);
}

void PoolKeeper::RestartDead(const ManagedPool& pool, const ObservedPool& observed, const Pool& view,
                             const PoolDecision& decision) {
  const absl::Time now = with_.clock->Steady();
  std::set<std::string> removed;
  std::set<std::string> present;
  for (const PoolAction& action : decision.actions) {
    if (action.kind == PoolActionKind::kRemove) removed.insert(action.node_id);
  }
  for (const ProvidedNode& node : observed.provided) {
    present.insert(node.node_id);
    if (node.state != ProvidedState::kDead || removed.contains(node.node_id)) continue;
    const PoolNode* seen = Find(view, node.node_id);
    if (seen != nullptr && seen->phase == NodePhase::kDraining) {
      // It was to go, and is gone.
      const absl::Status status = pool.provider->TerminateNode(node.node_id);
      if (!status.ok()) NoteError(pool.name, "provider", absl::StrCat("remove node ", node.node_id), status);
      continue;
    }
    const absl::Time next = backoff_.NextStart(node.node_id, now);
    if (next > now) {
      NoteError(
          pool.name, "provider",
          absl::StrCat("node ", node.node_id, " died ", backoff_.Failures(node.node_id), " times at once"),
          absl::UnavailableError(absl::StrCat(
              "next start in ", absl::FormatDuration(absl::Ceil(next - now, absl::Seconds(1))))));
      continue;
    }
    backoff_.Started(node.node_id, now);
    const absl::Status status = pool.provider->RestartNode(node.node_id);
    if (!status.ok()) {
      NoteError(pool.name, "provider", absl::StrCat("start node ", node.node_id, " again"), status);
      continue;
    }
    with_.metrics->CountAction(pool.name, "restart");
    log::Warning("node died and was started again", {{"pool", pool.name}, {"node", node.node_id}});
  }
  backoff_.KeepOnly(present);
}

void PoolKeeper::NoteError(const std::string& pool, const std::string& source, const std::string& what,
                           const absl::Status& status) {
  with_.metrics->CountError(pool, source);
  absl::StrAppend(&errors_, errors_.empty() ? "" : "; ", what, ": ", status.message());
}

}  // namespace adaptdl::autoscaler
