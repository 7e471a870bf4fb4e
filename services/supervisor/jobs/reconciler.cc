#include "services/supervisor/jobs/reconciler.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "services/supervisor/jobs/deadlocks.h"
#include "services/supervisor/jobs/group.h"
#include "services/supervisor/jobs/room.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

// How long a job is left alone of which the state machine has thrown, and how many such in one step.
constexpr absl::Duration kSetAside = absl::Minutes(1);
constexpr int kMostAttempts = 8;
// A job's longest way without an observation in between is STOPPING, PENDING, STARTING.
constexpr int kMostSteps = 8;

// Of what a step can change.
bool Equal(const JobRecord& a, const JobRecord& b) {
  return a.state == b.state && a.decision == b.decision && a.times == b.times;
}

// Whether what a waiting job is told differs, and nothing else.
bool OnlyMessageDiffers(JobRecord a, const JobRecord& b) {
  if (b.state.phase != jobs::Phase::kPending) return false;
  a.state.message = b.state.message;
  return Equal(a, b);
}

absl::Duration AtLeastZero(const google::protobuf::Duration& duration) {
  return std::max(ToDuration(duration), absl::ZeroDuration());
}

void AddPulse(const Pulse& pulse, jobs::Replica* replica) {
  replica->heard = pulse.heard;
  replica->waiting = AtLeastZero(pulse.activity.waiting());
  replica->idle = AtLeastZero(pulse.activity.idle());
  replica->patience = AtLeastZero(pulse.activity.patience());
  if (!pulse.activity.has_standing()) return;
  const v1::Standing& standing = pulse.activity.standing();
  replica->standing =
      jobs::Standing{standing.group(), standing.collective(), standing.step(),
                     standing.has_peer() ? standing.peer() : -1, AtLeastZero(standing.stalled())};
}

}  // namespace

void Reconciler::Reconcile(Transaction* transaction, const std::string& uid) {
  BringOn(transaction, uid, false);
}

void Reconciler::BringOn(Transaction* transaction, const std::string& uid, bool goes_first) {
  if (IsSetAside(uid, transaction->now())) return;
  try {
    for (int i = 0; i < kMostSteps && AdvanceOnce(transaction, uid, goes_first); ++i) {
    }
  } catch (const std::exception& error) {
    core_->invariants()->Broken(
        "state machine",
        absl::StrCat("job ", uid, ", left alone for ", absl::FormatDuration(kSetAside), ": ", error.what()));
    SetAside(uid, transaction->now() + kSetAside);
    throw;  // Half a change is not to be stored.
  }
}

void Reconciler::ReconcileWaiting(Transaction* transaction) {
  for (const std::string& uid : transaction->JobsWaitingForRoom()) Reconcile(transaction, uid);
}

void Reconciler::SetAside(const std::string& uid, absl::Time until) {
  MutexLock lock(&mutex_);
  set_aside_[uid] = until;
}

bool Reconciler::IsSetAside(const std::string& uid, absl::Time now) const {
  MutexLock lock(&mutex_);
  const auto aside = set_aside_.find(uid);
  return aside != set_aside_.end() && now < aside->second;
}

std::vector<jobs::Replica> Reconciler::Observed(const Transaction& transaction, const JobEntry& job,
                                                const jobs::Job& state) const {
  const bool watched = !job.broken.empty() || IsWaiting(job.record.uid());
  std::vector<jobs::Replica> replicas;
  for (const auto& record : job.replicas) {
    const NodeEntry* node = transaction.FindNode(record->replica.node_id());
    jobs::Replica& replica = replicas.emplace_back(
        ToReplica(*record, node != nullptr && node->phase() == v1::NODE_PHASE_DRAINING));
    if (replica.node_leaving && node != nullptr && node->record.node.status().has_preemption_time()) {
      replica.node_deadline =
          transaction.moment().ToSteady(ToTime(node->record.node.status().preemption_time()));
    }
    replica.cause = jobs::WhoseFault(replica.cause, state);
    if (!replica.joined && transaction.now() >= rejoin_deadline_) replica.rescales_in_place = false;
    if (watched) AddPulse(pulses_->LastPulse(record->replica.replica_id()), &replica);
    const auto report = job.broken.find(record->replica.replica_id());
    if (report == job.broken.end()) continue;
    replica.broken_group = report->second.group;
    replica.broken_since = report->second.since;
  }
  return replicas;
}

bool Reconciler::AdvanceOnce(Transaction* transaction, const std::string& uid, bool goes_first) {
  const JobEntry* job = transaction->FindJob(uid);
  if (job == nullptr || jobs::IsTerminal(job->record.state.phase)) return false;
  const jobs::Job before = job->record.state;
  const std::vector<jobs::Replica> replicas = Observed(*transaction, *job, before);
  jobs::Desired desired = DesiredOf(*transaction, *job, orders_->needs_ports());
  desired.goes_first = goes_first;
  const jobs::Outcome outcome = jobs::Advance(before, replicas, desired, transaction->now(), policy_);
  JobRecord record = job->record;
  SetState(outcome.job, transaction->moment(), &record);
  if (jobs::IsTerminal(outcome.job.phase)) record.decision.nodes.clear();
  // Nobody knows how long it waits, nor how fast it goes on.
  if (outcome.job.phase == jobs::Phase::kPending) record.times.estimated_completion = absl::InfinitePast();
  if (!Equal(record, job->record)) {
    JobEntry* edited = OnlyMessageDiffers(record, job->record) ? transaction->EditJobInMemory(uid)
                                                               : transaction->EditJob(uid);
    edited->record = std::move(record);
  }
  GiveOrders(transaction, uid, before, outcome);
  return !jobs::Converged(before, outcome);
}

void Reconciler::GiveOrders(Transaction* transaction, const std::string& uid, const jobs::Job& before,
                            const jobs::Outcome& outcome) {
  if (outcome.launch.has_value()) orders_->Launch(transaction, uid, *outcome.launch);
  if (!(outcome.job.plans == before.plans)) orders_->MintTokens(transaction->EditJob(uid));
  for (const jobs::LaunchNewcomer& launch : outcome.newcomers) {
    orders_->LaunchNewcomer(transaction, uid, launch);
  }
  for (const std::string& id : outcome.ends_handled) {
    const int index = FindMember(transaction->FindJob(uid)->replicas, id);
    if (index >= 0) transaction->EditReplica(uid, index)->end_handled = true;
  }
  if (outcome.apart.has_value()) separator_->KeepApart(transaction, *outcome.apart);
  if (outcome.offer) Orders::Offer(transaction, uid);
  for (const jobs::StopOrder& stop : outcome.stops) Orders::Stop(transaction, uid, stop);
  for (const jobs::Event& event : outcome.events) transaction->AddEvent(uid, event);
  if (outcome.job.phase == jobs::Phase::kStopping && before.phase != jobs::Phase::kStopping) {
    transaction->EffectsOf(uid)->restarts.push_back(outcome.job.reason);
  }
}

bool Reconciler::IsWaiting(const std::string& uid) const {
  MutexLock lock(&mutex_);
  return waiting_.count(uid) > 0;
}

bool Reconciler::IsDue(const JobEntry& job, absl::Time now) const {
  const std::string& uid = job.record.uid();
  {
    MutexLock lock(&mutex_);
    if (waiting_.count(uid) > 0 || set_aside_.count(uid) > 0) return true;
    // Those that waited for members to join again wait no more.
    if (!rejoin_deadline_seen_ && now >= rejoin_deadline_) return true;
  }
  const jobs::Phase phase = job.record.state.phase;
  const absl::Time retry_time = job.record.state.retry_time;
  if (retry_time != absl::InfinitePast() && retry_time <= now) return true;
  // A job in STOPPING whose replicas have all ended moves with the last observation; after a restart of the
  // supervisor that one lies in the past.
  if (phase == jobs::Phase::kStopping) return true;
  // It may have waited long enough for room, or for members to say that their group is broken.
  if (phase == jobs::Phase::kRescaling || !job.broken.empty()) return true;
  return phase == jobs::Phase::kStarting && job.record.state.starting_since + policy_.start_deadline <= now;
}

void Reconciler::Step() {
  {
    std::set<std::string> waiting = pulses_->TakeWaiting();
    MutexLock lock(&mutex_);
    waiting_ = std::move(waiting);
  }
  absl::Time now_looked_at = absl::InfinitePast();
  const auto reconcile_due = [&](Transaction* transaction) {
    const Tables& tables = transaction->base();
    now_looked_at = transaction->now();
    const std::set<std::string> victims = DeadlockVictims(*transaction);
    for (const auto& [sequence, uid] : tables.active) {
      if (IsDue(*tables.jobs.at(uid), transaction->now())) BringOn(transaction, uid, victims.count(uid) > 0);
    }
    return absl::OkStatus();
  };
  // A job that broke it is set aside, and left out of the next attempt. What can't be stored is due again.
  const auto attempt = [&] {
    core_->Update(reconcile_due).IgnoreError();
    return absl::OkStatus();
  };
  for (int i = 0; i < kMostAttempts && !core_->invariants()->Guard("step", attempt).ok(); ++i) {
  }
  const absl::Time now = core_->Now().steady;
  MutexLock lock(&mutex_);
  rejoin_deadline_seen_ = rejoin_deadline_seen_ || now_looked_at >= rejoin_deadline_;
  std::erase_if(set_aside_, [now](const auto& job) { return job.second <= now; });
}

}  // namespace adaptdl::supervisor
