#include "services/autoscaler/autoscaler.h"

#include <algorithm>
#include <cstddef>
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

v1::PoolNodeState ToProto(nodepools::NodePhase phase) {
  switch (phase) {
    case nodepools::NodePhase::kStarting:
      return v1::POOL_NODE_STATE_STARTING;
    case nodepools::NodePhase::kRunning:
      return v1::POOL_NODE_STATE_RUNNING;
    case nodepools::NodePhase::kDraining:
      return v1::POOL_NODE_STATE_DRAINING;
  }
  return v1::POOL_NODE_STATE_UNSPECIFIED;
}

// What the board shows of a pool that has not been looked at yet, and in any case.
v1::NodePool Basics(const ManagedPool& from) {
  v1::NodePool pool;
  pool.set_name(from.name);
  pool.set_provider(std::string(from.provider->name()));
  pool.set_min_nodes(from.min_nodes);
  pool.set_max_nodes(from.max_nodes);
  if (from.price_per_hour.has_value()) pool.set_price_per_hour(*from.price_per_hour);
  pool.set_preemptible(from.preemptible);
  pool.set_instance_type(from.instance_type);
  return pool;
}

void AddCondition(const std::string& type, const std::string& message, absl::Time since,
                  std::optional<absl::Time> next, v1::NodePool* pool) {
  v1::PoolCondition* condition = pool->add_conditions();
  condition->set_type(type);
  condition->set_message(message);
  *condition->mutable_start_time() = messages::ToProto(since);
  if (next.has_value()) *condition->mutable_next_attempt_time() = messages::ToProto(*next);
}

}  // namespace

Autoscaler::Autoscaler(const AutoscalerOptions& options, const Dependencies& dependencies)
    : options_(options), with_(dependencies), metrics_(dependencies.metrics) {
  std::vector<v1::NodePool> pools;
  for (const ManagedPool& managed : with_.pools->Get().pools) {
    KeeperOf(managed.name);
    pools.push_back(Basics(managed));
    pools.back().set_reason("not looked at yet");
  }
  with_.board->Set(std::move(pools));
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

PoolKeeper& Autoscaler::KeeperOf(const std::string& pool) {
  std::unique_ptr<PoolKeeper>& keeper = keepers_[pool];
  if (keeper == nullptr) {
    keeper = std::make_unique<PoolKeeper>(
        options_.keeper, PoolKeeper::Dependencies{with_.cluster, with_.clock, &metrics_, &events_});
    metrics_.AddPool(pool);
  }
  return *keeper;
}

void Autoscaler::Round() {
  const PoolSet& set = with_.pools->Get();
  Seen seen;
  for (const ManagedPool& pool : set.pools) {
    PoolKeeper& keeper = KeeperOf(pool.name);
    keeper.Begin();
    seen.observation.pools.push_back(keeper.Look(pool));
  }
  const bool supervisor_there = ListNodes(set, &seen);
  seen.observation.registered = registered_;
  for (size_t p = 0; p < set.pools.size(); ++p) {
    // First, so that their ids are free.
    if (supervisor_there)
      KeeperOf(set.pools[p].name)
          .ForgetGone(set.pools[p], seen.observation.pools[p], &seen.observation.registered);
  }
  AskForDemands(set, &seen);
  if (!supervisor_there) seen.state.jobs.reset();
  const nodepools::PoolsDecision decision = nodepools::DecidePools(set.target, seen.state);
  for (size_t p = 0; p < set.pools.size(); ++p) {
    const ObservedPool& observed = seen.observation.pools[p];
    if (!observed.answered) continue;
    KeeperOf(set.pools[p].name)
        .Execute(set.pools[p], set, observed, seen.state.pools[p], decision.pools[p],
                 TakenIds(observed, seen.observation.registered));
  }
  Publish(set, seen, decision);
}

bool Autoscaler::ListNodes(const PoolSet& set, Seen* seen) {
  absl::StatusOr<std::vector<v1::Node>> registered = with_.cluster->ListNodes();
  if (registered.ok()) {
    registered_ = *std::move(registered);
    return true;
  }
  NoteError(set, "supervisor", "the supervisor does not answer, the pools stay as they are",
            registered.status(), seen);
  return false;
}

void Autoscaler::AskForDemands(const PoolSet& set, Seen* seen) {
  const Observation& observation = seen->observation;
  std::map<std::string, int> node_pools;
  for (size_t p = 0; p < set.pools.size(); ++p) {
    seen->like.push_back(
        LikeOf(observation.pools[p], set.pools[p].like, observation.registered).value_or(v1::Node()));
    for (const ProvidedNode& node : observation.pools[p].provided)
      node_pools[node.node_id] = static_cast<int>(p);
  }
  const KindQuestion question = AskAbout(seen->like, OtherNodes(observation));
  absl::StatusOr<v1::ListJobDemandsResponse> demands = with_.cluster->ListJobDemands(question.kinds);
  if (!demands.ok())
    NoteError(set, "allocator", "the allocator does not answer, the pools stay as they are", demands.status(),
              seen);
  const std::vector<v1::JobDemand> jobs =
      demands.ok() ? std::vector<v1::JobDemand>(demands->jobs().begin(), demands->jobs().end())
                   : std::vector<v1::JobDemand>();
  KindAnswer answer = Interpret(question, node_pools, jobs);
  std::set<std::string> idle;
  if (demands.ok()) idle.insert(demands->idle_node_ids().begin(), demands->idle_node_ids().end());
  seen->state.now = with_.clock->Now();
  seen->state.fixed_nodes.assign(answer.kinds, 0);
  for (const auto& [node, kind] : question.fixed_nodes) ++seen->state.fixed_nodes[answer.merged[kind]];
  for (size_t p = 0; p < set.pools.size(); ++p) {
    nodepools::Pool view =
        KeeperOf(set.pools[p].name).View(set.pools[p], observation.pools[p], observation.registered, idle);
    view.kind = answer.merged[p];
    seen->state.pools.push_back(std::move(view));
  }
  if (demands.ok()) seen->state.jobs = std::move(answer.jobs);
}

void Autoscaler::NoteError(const PoolSet& set, const std::string& source, const std::string& what,
                           const absl::Status& status, Seen* seen) {
  for (const ManagedPool& pool : set.pools) metrics_.CountError(pool.name, source);
  absl::StrAppend(&seen->errors, seen->errors.empty() ? "" : "; ", what, ": ", status.message());
}

void Autoscaler::Publish(const PoolSet& set, const Seen& seen, const nodepools::PoolsDecision& decision) {
  std::vector<v1::NodePool> pools;
  std::string all_errors = seen.errors;
  if (set.refusal.ok()) {
    refused_since_.reset();
  } else if (!refused_since_.has_value()) {
    refused_since_ = with_.clock->Now();
  }
  for (size_t p = 0; p < set.pools.size(); ++p) {
    const ManagedPool& managed = set.pools[p];
    const ObservedPool& observed = seen.observation.pools[p];
    const nodepools::PoolDecision& decided = decision.pools[p];
    const PoolKeeper& keeper = KeeperOf(managed.name);
    v1::NodePool pool = Basics(managed);
    *pool.mutable_capacity() = seen.like[p].capacity();
    pool.set_gpu_type(seen.like[p].gpu_type());
    pool.set_current_nodes(static_cast<int>(observed.provided.size()));
    pool.set_target_nodes(decided.target_nodes);
    pool.set_reason(decided.reason);
    for (const ProvidedNode& node : observed.provided) {
      if (!node.hindrance.empty())
        absl::StrAppend(pool.mutable_reason(), "; ", node.node_id, " ", node.hindrance);
    }
    const std::string& own = keeper.errors();
    pool.set_last_error(absl::StrCat(seen.errors, seen.errors.empty() || own.empty() ? "" : "; ", own));
    if (!own.empty()) absl::StrAppend(&all_errors, all_errors.empty() ? "" : "; ", managed.name, ": ", own);
    if (decided.cooldown_end.has_value())
      *pool.mutable_cooldown_end_time() = messages::ToProto(*decided.cooldown_end);
    if (const auto refusal = keeper.refusal(managed.name); refusal.has_value()) {
      AddCondition(keeper.lacks_capacity() ? "InsufficientCapacity" : "ProviderFailed", refusal->why,
                   refusal->since, refusal->until, &pool);
    }
    if (refused_since_.has_value()) {
      AddCondition("ConfigurationRefused", std::string(set.refusal.message()), *refused_since_, std::nullopt,
                   &pool);
    }
    for (const nodepools::PoolNode& node : seen.state.pools[p].nodes) {
      v1::PoolNode* entry = pool.add_nodes();
      entry->set_node_id(node.id);
      entry->set_state(ToProto(node.phase));
      for (const ProvidedNode& provided : observed.provided) {
        if (provided.node_id == node.id) entry->set_instance_id(provided.instance_id);
      }
    }
    metrics_.SetNodes(seen.state.pools[p], decided.target_nodes);
    if (managed.max_nodes == 0 && observed.answered && observed.provided.empty())
      with_.pools->Emptied(managed.name);
    pools.push_back(std::move(pool));
  }
  metrics_.SetUtility(decision.utility);
  Report(set, seen, pools);
  with_.board->Set(std::move(pools));
  LogErrors(all_errors);
}

void Autoscaler::Report(const PoolSet& set, const Seen& seen, const std::vector<v1::NodePool>& pools) {
  v1::ReportNodePoolsRequest request;
  request.set_currency(set.currency);
  for (const v1::NodePool& pool : pools) *request.add_pools() = pool;
  for (size_t p = 0; p < set.pools.size(); ++p) {
    for (const ProvidedNode& node : seen.observation.pools[p].provided) {
      // Asked for, and not there: nobody charges for it.
      if (node.state == ProvidedState::kRequested && node.instance_id.empty()) continue;
      v1::VouchedNode* vouched = request.add_nodes();
      vouched->set_node_id(node.node_id);
      vouched->set_pool(set.pools[p].name);
      vouched->set_instance_id(node.instance_id);
      vouched->set_address(node.address);
      if (set.pools[p].price_per_hour.has_value()) vouched->set_price_per_hour(*set.pools[p].price_per_hour);
      vouched->set_preemptible(set.pools[p].preemptible);
      const std::optional<absl::Time> seen_first = KeeperOf(set.pools[p].name).FirstSeen(node.node_id);
      const absl::Time created = node.create_time.value_or(seen_first.value_or(with_.clock->Now()));
      *vouched->mutable_create_time() = messages::ToProto(created);
    }
  }
  const size_t events = events_.untold().size();
  for (const v1::PoolEvent& event : events_.untold()) *request.add_events() = event;
  const absl::Status status = with_.cluster->ReportNodePools(request);
  if (status.ok()) {
    events_.Told(events);
  } else {
    for (const ManagedPool& pool : set.pools) metrics_.CountError(pool.name, "supervisor");
    log::Debug("node pools not reported", {{"error", std::string(status.message())}});
  }
}

void Autoscaler::LogErrors(const std::string& errors) {
  if (errors == last_errors_) return;
  if (errors.empty()) {
    log::Info("all is well again", {});
  } else {
    log::Warning(errors, {});
  }
  last_errors_ = errors;
}

}  // namespace adaptdl::autoscaler
