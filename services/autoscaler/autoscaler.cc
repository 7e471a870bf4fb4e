#include "services/autoscaler/autoscaler.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/clock.h"
#include "libs/messages/proto_time.h"
#include "libs/service/log.h"

namespace adaptdl::autoscaler {
namespace {

v1::PoolNodeState ToProto(PoolNodePhase phase) {
  switch (phase) {
    case PoolNodePhase::kStarting:
      return v1::POOL_NODE_STATE_STARTING;
    case PoolNodePhase::kRunning:
      return v1::POOL_NODE_STATE_RUNNING;
    case PoolNodePhase::kDraining:
      return v1::POOL_NODE_STATE_DRAINING;
  }
  return v1::POOL_NODE_STATE_UNSPECIFIED;
}

// What the board shows of a pool that has not been looked at yet, and in any case.
v1::NodePool Basics(const PoolLimits& limits, absl::string_view provider) {
  v1::NodePool pool;
  pool.set_name(limits.pool);
  pool.set_provider(std::string(provider));
  pool.set_min_nodes(limits.min_nodes);
  pool.set_max_nodes(limits.max_nodes);
  return pool;
}

bool IsEmpty(const PoolView& view, const std::string& node_id) {
  return std::any_of(view.nodes.begin(), view.nodes.end(),
                     [&](const PoolNodeView& node) { return node.node_id == node_id && node.empty; });
}

}  // namespace

Autoscaler::Autoscaler(const AutoscalerOptions& options, const Dependencies& dependencies)
    : options_(options),
      with_(dependencies),
      metrics_(dependencies.metrics, options.limits.pool, options.limits.target.node_price_per_hour),
      backoff_(options.restart),
      last_change_(dependencies.clock->Steady()) {
  v1::NodePool pool = Basics(options_.limits, with_.provider->name());
  pool.set_reason("not looked at yet");
  with_.board->Set(pool);
}

Autoscaler::~Autoscaler() { Stop(); }

void Autoscaler::Start() {
  thread_ = std::thread([this] { Loop(); });
}

void Autoscaler::Stop() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    stop_changed_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void Autoscaler::Loop() {
  while (true) {
    Round();
    const absl::Time next = SteadyNow() + options_.poll_period;
    MutexLock lock(&mutex_);
    while (!stop_ && SteadyNow() < next) stop_changed_.WaitFor(&mutex_, next - SteadyNow());
    if (stop_) return;
  }
}

void Autoscaler::Round() {
  last_errors_ = std::exchange(errors_, "");
  std::optional<Observation> observation = Observe();
  if (observation.has_value()) {
    // First, so that their ids are free.
    if (!with_.provider->ends_nodes_gently()) ForgetGone(&*observation);
    const PoolView view = MakePoolView(*observation);
    const PoolDecision decision = Decide(options_.limits, view, with_.clock->Now());
    RestartDead(*observation, decision);
    Execute(view, decision);
    Keep(view, decision);
    Publish(*observation, view, decision);
  } else {
    v1::NodePool pool = with_.board->Get();
    pool.set_last_error(errors_);
    with_.board->Set(pool);
  }
  LogErrors();
}

std::optional<Observation> Autoscaler::Observe() {
  Observation observation;
  observation.kind = with_.provider->kind();
  // Pools may have a deadline by the wall clock: all that is decided is by that.
  observation.last_change = with_.clock->Both().ToWall(last_change_);
  absl::StatusOr<std::vector<ProvidedNode>> provided = with_.provider->ListNodes();
  if (!provided.ok()) {
    NoteError("provider", "the provider can't list its nodes", provided.status());
    return std::nullopt;
  }
  observation.provided = *std::move(provided);
  absl::StatusOr<std::vector<v1::Node>> registered = with_.cluster->ListNodes();
  const bool supervisor_there = registered.ok();
  if (supervisor_there) {
    registered_ = *std::move(registered);
  } else {
    NoteError("supervisor", "the supervisor does not answer, the pool stays as it is", registered.status());
  }
  observation.registered = registered_;
  absl::StatusOr<v1::GetDesiredCapacityResponse> capacity = with_.cluster->GetDesiredCapacity();
  if (!capacity.ok()) {
    NoteError("allocator", "the allocator does not answer, the pool stays as it is", capacity.status());
  } else if (supervisor_there) {
    observation.capacity = *std::move(capacity);
  }
  return observation;
}

bool Autoscaler::Create(const PoolView& view, const PoolDecision& decision) {
  if (decision.create == 0) return false;
  const NodePoolProvider::Created created = with_.provider->CreateNodes(decision.create, view.taken_ids);
  for (const std::string& id : created.node_ids) {
    backoff_.Started(id, with_.clock->Steady());
    metrics_.CountAction("start");
    log::Info("node pool changed",
              {{"pool", options_.limits.pool}, {"action", "start"}, {"node", id}, {"why", decision.reason}});
  }
  if (!created.status.ok()) NoteError("provider", "start another node", created.status);
  return !created.node_ids.empty();
}

void Autoscaler::Execute(const PoolView& view, const PoolDecision& decision) {
  bool changed = Create(view, decision);
  for (const PoolAction& action : decision.actions) {
    const std::string kind(PoolActionKindName(action.kind));
    const absl::Status status = ExecuteOne(view, action);
    if (!status.ok()) {
      NoteError(action.kind == PoolActionKind::kDrain ? "supervisor" : "provider",
                absl::StrCat(kind, " node ", action.node_id), status);
      continue;
    }
    changed = true;
    metrics_.CountAction(kind);
    log::Info(
        "node pool changed",
        {{"pool", options_.limits.pool}, {"action", kind}, {"node", action.node_id}, {"why", action.reason}});
  }
  if (changed && decision.changes_size) last_change_ = with_.clock->Steady();
}

absl::Status Autoscaler::ExecuteOne(const PoolView& view, const PoolAction& action) {
  switch (action.kind) {
    case PoolActionKind::kDrain:
      // Who takes it away drains it; nobody takes one that works.
      if (with_.provider->ends_nodes_gently() && IsEmpty(view, action.node_id))
        return with_.provider->TerminateNode(action.node_id);
      return with_.cluster->DrainNode(action.node_id,
                                      absl::StrCat("node pool ", options_.limits.pool, ": ", action.reason));
    case PoolActionKind::kRemove:
      return with_.provider->TerminateNode(action.node_id);
  }
  return absl::InternalError("unknown action");
}

void Autoscaler::Keep(const PoolView& view, const PoolDecision& decision) {
  std::set<std::string> given_up;
  for (const PoolAction& action : decision.actions) given_up.insert(action.node_id);
  std::vector<KeptNode> kept;
  for (const PoolNodeView& node : view.nodes) {
    if (node.phase == PoolNodePhase::kRunning && !given_up.contains(node.node_id))
      kept.push_back({node.node_id, node.empty});
  }
  const absl::Status status = with_.provider->KeepNodes(kept);
  if (!status.ok()) NoteError("provider", "keep nodes", status);
}

void Autoscaler::RestartDead(const Observation& observation, const PoolDecision& decision) {
  const absl::Time now = with_.clock->Steady();
  std::set<std::string> removed, present;
  for (const PoolAction& action : decision.actions) {
    if (action.kind == PoolActionKind::kRemove) removed.insert(action.node_id);
  }
  for (const ProvidedNode& node : observation.provided) {
    present.insert(node.node_id);
    if (node.state != ProvidedState::kDead || removed.contains(node.node_id)) continue;
    const absl::Time next = backoff_.NextStart(node.node_id, now);
    if (next > now) {
      NoteError(
          "provider",
          absl::StrCat("node ", node.node_id, " died ", backoff_.Failures(node.node_id), " times at once"),
          absl::UnavailableError(absl::StrCat(
              "next start in ", absl::FormatDuration(absl::Ceil(next - now, absl::Seconds(1))))));
      continue;
    }
    backoff_.Started(node.node_id, now);
    const absl::Status status = with_.provider->RestartNode(node.node_id);
    if (!status.ok()) {
      NoteError("provider", absl::StrCat("start node ", node.node_id, " again"), status);
      continue;
    }
    metrics_.CountAction("restart");
    log::Warning("node died and was started again", {{"pool", options_.limits.pool}, {"node", node.node_id}});
  }
  backoff_.KeepOnly(present);
}

void Autoscaler::ForgetGone(Observation* observation) {
  for (const std::string& node_id : NodesToForget(*observation)) {
    const absl::Status status = with_.cluster->RemoveNode(node_id);
    if (status.ok()) {
      std::erase_if(observation->registered, [&](const v1::Node& node) { return node.node_id() == node_id; });
    } else if (!absl::IsFailedPrecondition(status)) {
      // (That would mean that it changed meanwhile; the next round sees it as it is.)
      NoteError("supervisor", absl::StrCat("remove node ", node_id), status);
    }
  }
}

void Autoscaler::Publish(const Observation& observation, const PoolView& view, const PoolDecision& decision) {
  v1::NodePool pool = Basics(options_.limits, with_.provider->name());
  pool.set_current_nodes(static_cast<int>(observation.provided.size()));
  pool.set_target_nodes(decision.target_nodes);
  pool.set_reason(decision.reason);
  for (const ProvidedNode& node : observation.provided) {
    if (!node.hindrance.empty())
      absl::StrAppend(pool.mutable_reason(), "; ", node.node_id, " ", node.hindrance);
  }
  pool.set_last_error(errors_);
  if (decision.cooldown_end.has_value())
    *pool.mutable_cooldown_end_time() = messages::ToProto(*decision.cooldown_end);
  for (const PoolNodeView& node : view.nodes) {
    v1::PoolNode* entry = pool.add_nodes();
    entry->set_node_id(node.node_id);
    entry->set_state(ToProto(node.phase));
  }
  with_.board->Set(pool);
  metrics_.SetNodes(view, decision);
}

void Autoscaler::NoteError(const std::string& source, const std::string& what, const absl::Status& status) {
  metrics_.CountError(source);
  absl::StrAppend(&errors_, errors_.empty() ? "" : "; ", what, ": ", status.message());
}

void Autoscaler::LogErrors() {
  if (errors_ == last_errors_) return;
  if (errors_.empty()) {
    log::Info("all is well again", {{"pool", options_.limits.pool}});
  } else {
    log::Warning(errors_, {{"pool", options_.limits.pool}});
  }
}

}  // namespace adaptdl::autoscaler
