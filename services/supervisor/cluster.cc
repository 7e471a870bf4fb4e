#include "services/supervisor/cluster.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "libs/base/clock.h"
#include "services/supervisor/replicas/effect_runner.h"
#include "services/supervisor/state/load.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

constexpr int kSilentAfterPeriods = 3;
// A busy machine may hold a healthy replica up for a while.
constexpr absl::Duration kShortestSilence = absl::Seconds(5);

ClusterOptions WithSilence(ClusterOptions options) {
  options.policy.silence = std::max(kSilentAfterPeriods * options.replica_heartbeat_period, kShortestSilence);
  return options;
}

GroupTokenSource TokensOf(const ClusterParts& parts) {
  if (parts.token_of) return parts.token_of;
  return [random_hex = parts.random_hex](const std::string& /*job_uid*/, int64_t /*group*/) {
    return random_hex(32);
  };
}

}  // namespace

Cluster::Cluster(const ClusterOptions& options, const ClusterParts& parts)
    : options_(WithSilence(options)),
      core_(parts.core, options_.request_lifetime),
      quotas_(&core_, {options_.max_jobs_per_namespace, options_.max_submissions_per_minute}),
      costs_(&core_, options_.costs),
      pools_(&core_, &costs_),
      logs_(&core_.index(), parts.core.store),
      orders_(TokensOf(parts)),
      separator_(&core_, options_.quarantine),
      reconciler_(&core_, options_.policy, &orders_, &separator_, parts.sessions),
      deletions_(&core_, parts.launcher),
      retention_(
          &core_,
          {options_.retention, options_.expire_files, options_.request_lifetime, options_.kept_replicas},
          &deletions_),
      jobs_(&core_, &quotas_, &costs_, &reconciler_, &deletions_, parts.random_hex),
      limiter_(&core_),
      progress_(&core_, parts.sessions, options_.flush_period),
      reports_(&core_, &reconciler_, &limiter_, &progress_),
      standstills_(&core_, parts.sessions, options_.policy.silence),
      membership_(&core_, &reconciler_, parts.sessions, &limiter_),
      quarantine_(&core_, options_.quarantine),
      observer_(&reconciler_, &quarantine_, &progress_, &limiter_),
      nodes_({&core_, &reconciler_, &orders_, &deletions_, &observer_, &limiter_, &pools_},
             options_.heartbeat_period),
      scheduling_(&core_, &reconciler_, options_.allocator_lease) {
  core_.SetFollowUp([this](Transaction* transaction) { reconciler_.ReconcileWaiting(transaction); });
  core_.SetEffectRunner([this, sessions = parts.sessions, launcher = parts.launcher](const Effects& effects) {
    CarryOut(effects, sessions, launcher, core_.metrics());
  });
}

absl::StatusOr<std::unique_ptr<Cluster>> Cluster::Create(const ClusterOptions& options,
                                                         const ClusterParts& parts) {
  std::unique_ptr<Cluster> cluster(new Cluster(options, parts));
  const Moment now = cluster->core_.Now();
  absl::StatusOr<LoadedState> state =
      LoadState(parts.core.store, {options.policy, options.quarantine}, now, parts.core.invariants);
  if (!state.ok()) return state.status();
  cluster->core_.Fill(std::move(state->tables), std::move(state->unreadable_jobs));
  cluster->costs_.Fill(state->costs);
  for (const DamagedRow& row : state->damaged) {
    // The state machine has something to say about a replica that counts as lost.
    if (!row.mended && row.table == "replicas") cluster->reconciler_.SetAside(row.job_uid, now);
  }
  cluster->damaged_ = std::move(state->damaged);
  if (!cluster->damaged_.empty()) parts.core.durability->Committed();
  return cluster;
}

void Cluster::SetMetrics(Metrics* metrics) {
  core_.SetMetrics(metrics);
  for (const DamagedRow& row : damaged_) metrics->CountDamagedRow(row.table, row.mended);
  damaged_.clear();
}

void Cluster::Step() {
  // What breaks in one of them leaves the others alone.
  const auto step = [this](const auto& part) {
    const auto body = [&] {
      part();
      return absl::OkStatus();
    };
    core_.invariants()->Guard("step", body).IgnoreError();
  };
  step([this] { nodes_.Step(); });
  step([this] { quarantine_.Step(); });
  step([this] { separator_.Step(); });
  step([this] {
    const absl::Time begin = SteadyNow();
    reconciler_.Step();
    if (Metrics* metrics = core_.metrics()) metrics->ObserveReconciliation(SteadyNow() - begin);
  });
  step([this] { progress_.Step(); });
  step([this] { standstills_.Step(); });
  step([this] { limiter_.Step(); });
  step([this] { retention_.Step(); });
  step([this] { deletions_.Step(); });
  step([this] { costs_.Step(); });
  step([this] { UpdateGauges(); });
}

void Cluster::UpdateGauges() {
  Metrics* metrics = core_.metrics();
  if (metrics == nullptr) return;
  metrics->SetLeaderTerm(core_.term());
  const absl::Time now = core_.Now();
  if (now < next_gauges_) return;
  next_gauges_ = now + absl::Seconds(1);
  std::map<v1::JobPhase, int> jobs;
  std::map<v1::NodePhase, int> nodes;
  std::map<std::string, int> waiting;
  core_.Read([&](const Tables& tables) {
    for (const auto& [uid, job] : tables.jobs) {
      const jobs::Job& state = job->record.state;
      ++jobs[ToProto(state.phase)];
      if (state.phase == jobs::Phase::kPending) ++waiting[state.reason];
    }
    for (const auto& [id, node] : tables.nodes) ++nodes[node->phase()];
  });
  std::map<std::string, int> jobs_by_name;
  std::map<std::string, int> nodes_by_name;
  for (int i = v1::JOB_PHASE_PENDING; i <= v1::JOB_PHASE_RESCALING; ++i) {
    const auto phase = static_cast<v1::JobPhase>(i);
    jobs_by_name[v1::JobPhase_Name(phase)] = jobs[phase];
  }
  for (int i = v1::NODE_PHASE_READY; i <= v1::NODE_PHASE_QUARANTINED; ++i) {
    const auto phase = static_cast<v1::NodePhase>(i);
    nodes_by_name[v1::NodePhase_Name(phase)] = nodes[phase];
  }
  metrics->SetJobs(jobs_by_name);
  metrics->SetNodes(nodes_by_name);
  metrics->SetWaiting(waiting);
}

}  // namespace adaptdl::supervisor
