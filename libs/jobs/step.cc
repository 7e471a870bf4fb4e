#include "libs/jobs/step.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/backoff.h"
#include "libs/jobs/descriptions.h"

namespace adaptdl::jobs {

Step::Step(const Job& job, const std::vector<Replica>& replicas, const Desired& desired, absl::Time now,
           const Policy& policy)
    : replicas_(replicas), desired_(desired), now_(now), policy_(policy) {
  outcome_.job = job;
  for (const Replica& replica : replicas) {
    if (replica.group == job.group && job.group > 0 && !job.allocation.empty()) members_.push_back(replica);
    if (IsLive(replica)) any_live_ = true;
  }
}

Outcome Step::Run() {
  switch (outcome_.job.phase) {
    case Phase::kPending:
      Pending();
      break;
    case Phase::kStarting:
    case Phase::kRunning:
    case Phase::kRescaling:
      Active();
      break;
    case Phase::kStopping:
      Stopping();
      break;
    case Phase::kSucceeded:
    case Phase::kFailed:
    case Phase::kCancelled:
      break;
  }
  StopStrays();
  return std::move(outcome_);
}

void Step::Say(bool warning, absl::string_view reason, std::string message, std::string node,
               std::string replica_id) {
  outcome_.events.push_back(
      {warning, std::string(reason), std::move(message), std::move(node), std::move(replica_id)});
}

void Step::Explain(absl::string_view reason, std::string message) {
  job().reason = std::string(reason);
  job().message = std::move(message);
}

void Step::Order(const Replica& replica, absl::string_view reason, bool at_once) {
  if (!IsLive(replica) || replica.stop_requested) return;
  outcome_.stops.push_back({replica.id, replica.node, std::string(reason), at_once});
}

void Step::StopStrays() {
  for (const Replica& replica : replicas_) {
    const bool member = replica.group == job().group && !job().allocation.empty();
    const bool planned = std::any_of(job().plans.begin(), job().plans.end(),
                                     [&](const Plan& p) { return RankIn(p, replica.id) >= 0; });
    if (IsTerminal(job().phase) || (!member && !planned)) Order(replica, "its group is over");
  }
}

void Step::Finish(Phase phase, absl::string_view reason, std::string message) {
  LeaveRunning();
  job().phase = phase;
  job().allocation.clear();
  DropPlans();
  job().retry_time = absl::InfinitePast();
  job().rescaling_since = absl::InfinitePast();
  job().completion_time = now_;
  Explain(reason, std::move(message));
  outcome_.waits_for = WaitsFor::kNothing;
}

void Step::DropPlans() {
  job().plans.clear();
  job().rescale_note.clear();
}

int64_t Step::NextGroup() {
  job().last_group = std::max(job().last_group, job().group) + 1;
  return job().last_group;
}

void Step::LeaveRunning() {
  if (job().running_since == absl::InfinitePast()) return;
  const absl::Duration ran = std::max(absl::ZeroDuration(), now_ - job().running_since);
  job().running_time += ran;
  job().running_since = absl::InfinitePast();
  if (ran >= policy_.healthy_after) job().failures = job().faults = 0;
}

void Step::Pending() {
  if (any_live_) {
    outcome_.waits_for = WaitsFor::kReplicas;
  } else if (job().cancel_requested) {
    Cancelled();
  } else if (job().suspended) {
    job().rescaling_since = absl::InfinitePast();
    outcome_.waits_for = WaitsFor::kAllocation;
    Explain("Suspended", "held by its user; resume it to have it go on");
  } else if (job().retry_time > now_) {
    outcome_.waits_for = WaitsFor::kRetryTime;
  } else if (desired_.nodes.empty()) {
    job().rescaling_since = absl::InfinitePast();  // how long it waits is not for it to decide
    outcome_.waits_for = WaitsFor::kAllocation;
    if (desired_.unschedulable) {
      Explain("Unschedulable", desired_.reason);
    } else {
      Explain("Queued", desired_.reason.empty() ? "waits for an allocation" : desired_.reason);
    }
  } else if (!desired_.nodes_ready || !desired_.room) {
    outcome_.waits_for = WaitsFor::kRoom;
    Explain("WaitingForRoom", desired_.obstacle);
  } else {
    Launch();
  }
}

void Step::Launch() {
  if (job().group > 0) ++job().restarts;
  job().group = NextGroup();
  job().phase = Phase::kStarting;
  job().starting_since = now_;
  job().allocation = desired_.nodes;
  job().retry_time = absl::InfinitePast();
  Explain("Launching", absl::StrCat("launches ", DescribeNodes(desired_.nodes)));
  Say(false, "Allocated",
      absl::StrCat("group ", job().group, ": ", DescribeNodes(desired_.nodes), Because(desired_.reason)));
  outcome_.launch = LaunchGroup{job().group, desired_.nodes};
  outcome_.waits_for = WaitsFor::kReplicas;
}

void Step::Active() {
  outcome_.waits_for = WaitsFor::kReplicas;
  if (job().phase != Phase::kStarting && job().retry_time <= now_) job().retry_time = absl::InfinitePast();
  const Tally tally = Count();
  if (AwaitsMembers() && !job().cancel_requested && !job().suspended) return;
  if (tally.live + tally.done + tally.left + tally.end_handled < size()) {
    if (!Recover()) StopAfterLoss();
  } else if (job().cancel_requested) {
    Stop("Cancelled", "cancelled by its user");
  } else if (tally.live == 0 && tally.done > 0) {
    Succeeded();
  } else if (tally.live == 0) {
    StopAfterLoss();
  } else if (job().suspended) {
    job().rescaling_since = absl::InfinitePast();
    Stop("Suspended", absl::StrCat("gives up its ", Plural(size()), ": held by its user"));
  } else if (StartsTooLate(tally)) {
    GiveUpStart(tally);
  } else if (job().phase != Phase::kStarting && CanChangeInPlace()) {
    if (tally.done == 0 && !EndSuspicion() && !GiveUpAbsent() && !GiveUpStalled()) Reconcile();
  } else if (MustMove()) {
    Move();
  } else if (job().phase == Phase::kStarting && tally.launching == 0) {
    EnterRunning();
  }
}

Step::Tally Step::Count() {
  Tally tally;
  for (const Replica& replica : members_) {
    const Fate fate = FateOf(replica);
    tally.live += fate == Fate::kLive;
    tally.launching += replica.state == ReplicaState::kLaunching;
    tally.done += fate == Fate::kDone && !HasLeft(replica);
    tally.left += HasLeft(replica);
    tally.end_handled += !HasLeft(replica) && IsEndHandled(replica);
  }
  return tally;
}

bool Step::AwaitsMembers() {
  return std::any_of(members_.begin(), members_.end(), [](const Replica& replica) {
    return IsLive(replica) && replica.rescales_in_place && !replica.joined;
  });
}

bool Step::HasLeft(const Replica& replica) {
  const Fate fate = FateOf(replica);
  const bool as_told = fate == Fate::kStopped || fate == Fate::kStoppedUnasked || fate == Fate::kDone;
  return as_told && LeftOut(replica);
}

bool Step::LeftOut(const Replica& replica) {
  bool known = IsMember(replica.id);
  for (const Plan& p : job().plans) {
    if (!p.offered) continue;
    if (RankIn(p, replica.id) >= 0) {
      known = true;
    } else if (known) {
      return true;
    }
  }
  return false;
}

bool Step::IsEndHandled(const Replica& replica) {
  const Fate fate = FateOf(replica);
  if (fate == Fate::kLive || fate == Fate::kDone) return false;
  return replica.end_handled || (plan() != nullptr && plan()->committed && RankIn(*plan(), replica.id) < 0);
}

bool Step::MustMove() {
  if (!job().preemptible || SameNodes(desired_.nodes, job().allocation)) return false;
  return desired_.nodes.empty() || desired_.nodes_ready;
}

void Step::Move() {
  const int now = size();
  const int next = static_cast<int>(desired_.nodes.size());
  if (next == 0) {
    const std::string message = absl::StrCat("gives up its ", Plural(now), Because(desired_.reason));
    Say(false, "Preempted", message);
    job().rescaling_since = absl::InfinitePast();
    Stop("Preempted", message);
    return;
  }
  const std::string message =
      absl::StrCat("from ", Plural(now), " to ", DescribeNodes(desired_.nodes), Because(desired_.reason));
  Say(false, "Rescaling", message);
  if (job().phase != Phase::kStarting) job().rescaling_since = now_;
  Stop("Rescaling", message);
}

bool Step::StartsTooLate(const Tally& tally) {
  return job().phase == Phase::kStarting && tally.launching > 0 &&
         job().starting_since != absl::InfinitePast() &&
         now_ - job().starting_since >= policy_.start_deadline;
}

void Step::GiveUpStart(const Tally& tally) {
  std::string nodes;
  for (const Replica& replica : members_) {
    if (replica.state == ReplicaState::kLaunching)
      absl::StrAppend(&nodes, nodes.empty() ? "" : ", ", replica.node);
  }
  const std::string message =
      absl::StrCat(tally.launching, " of ", Plural(size()), " did not come to run within ",
                   absl::FormatDuration(policy_.start_deadline), " (on ", nodes, ")");
  Say(true, kStartDeadlineExceeded, message);
  Stop(kStartDeadlineExceeded, message);
  job().start_expired = true;
}

void Step::EnterRunning() {
  job().phase = Phase::kRunning;
  job().running_since = now_;
  if (job().start_time == absl::InfinitePast()) job().start_time = now_;
  if (!job().tells_progress) EndRescale(now_, &job());
  Explain("", "");
  Say(false, "GroupStarted",
      absl::StrCat("group ", job().group, " runs with ", DescribeNodes(job().allocation)));
}

bool Step::LooksOwn(const Replica& replica) {
  const Fate fate = FateOf(replica);
  if (fate == Fate::kFailed) return true;
  if (fate != Fate::kPeerLost && fate != Fate::kStoppedUnasked) return false;
  if (static_cast<int>(members_.size()) < size()) return false;
  // A group stops as one, also when it is for the sake of a node that goes away.
  return std::none_of(members_.begin(), members_.end(), [](const Replica& member) {
    return IsExplanation(member) || (IsLive(member) && member.node_leaving);
  });
}

std::string Step::TellEnd(const Replica& replica, bool own) {
  const Fate fate = FateOf(replica);
  const bool follows = !own && (fate == Fate::kPeerLost || fate == Fate::kStoppedUnasked);
  std::string text =
      follows ? absl::StrCat("replica ", replica.rank, " on node ", replica.node, " stopped with its group")
              : absl::StrCat("replica ", replica.rank, " on node ", replica.node, " ", DescribeEnd(replica));
  Say(true, own ? "ReplicaFailed" : "ReplicaLost", text, replica.node, replica.id);
  return text;
}

void Step::StopAfterLoss() {
  job().rescaling_since = absl::InfinitePast();
  std::string message;
  bool failed = false;
  for (const Replica& replica : members_) {
    const Fate fate = FateOf(replica);
    if (fate == Fate::kLive || fate == Fate::kDone || HasLeft(replica) || replica.end_handled) continue;
    const bool own = LooksOwn(replica);
    const std::string text = TellEnd(replica, own);
    if (message.empty() || (own && !failed)) message = text;
    failed = failed || own;
  }
  if (message.empty()) {
    message = absl::StrCat(size() - static_cast<int>(members_.size()), " of ", Plural(size()), " gone");
    Say(true, "ReplicaLost", message);
  }
  Stop(failed ? "ReplicaFailed" : "ReplicaLost", message);
}

void Step::Stop(absl::string_view reason, const std::string& message) {
  LeaveRunning();
  job().phase = Phase::kStopping;
  DropPlans();
  Explain(reason, message);
  StopMembers();
  outcome_.waits_for = WaitsFor::kReplicas;
}

void Step::StopMembers() {
  for (const Replica& replica : members_) {
    Order(replica, job().cancel_requested ? "the job was cancelled"
                                          : absl::StrCat(job().reason, Because(job().message)));
  }
}

void Step::Stopping() {
  if (any_live_) {
    if (job().cancel_requested && job().reason != "Cancelled") Explain("Cancelled", "cancelled by its user");
    StopMembers();
    outcome_.waits_for = WaitsFor::kReplicas;
    return;
  }
  GroupEnd end = ClassifyGroupEnd(members_, size());
  if (std::exchange(job().start_expired, false) && !end.own_failure) {
    end.own_failure = !end.completed;
    end.message = job().message;
  }
  if (job().cancel_requested) {
    Cancelled();
  } else if (end.completed) {
    Succeeded();
  } else if (end.own_failure) {
    Failure(end);
  } else if (end.fault) {
    Fault(end);
  } else {
    if (end.lost) job().rescaling_since = absl::InfinitePast();
    Say(false, "GroupStopped", absl::StrCat("group ", job().group, " has stopped: ", end.message));
    BackToPending("Queued", absl::StrCat("is to start again", Because(end.message)));
  }
}

void Step::Failure(const GroupEnd& end) {
  job().rescaling_since = absl::InfinitePast();
  ++job().failures;
  if (job().failures > job().max_restarts) {
    const std::string message =
        absl::StrCat(end.message, " (failure ", job().failures, ", maxRestarts is ", job().max_restarts,
                     "); \"adaptdl logs\" says more, and a job that is mended is submitted anew");
    Finish(Phase::kFailed, "MaxRestartsExceeded", message);
    Say(true, "Failed", message, end.node, end.replica_id);
    return;
  }
  const absl::Duration wait = BackOff(job().failures);
  const std::string message =
      absl::StrCat("failure ", job().failures, " of at most ", job().max_restarts, ", tries again in ",
                   absl::FormatDuration(wait), ": ", end.message);
  Say(true, "BackOff", message, end.node, end.replica_id);
  BackToPending("BackOff", message);
  job().retry_time = now_ + wait;
  outcome_.waits_for = WaitsFor::kRetryTime;
}

void Step::Fault(const GroupEnd& end) {
  job().rescaling_since = absl::InfinitePast();
  const absl::Duration wait = BackOff(++job().faults);
  const std::string message = absl::StrCat("not the job's fault, which does not count; tries again in ",
                                           absl::FormatDuration(wait), ": ", end.message);
  Say(true, "InfrastructureFault", message, end.node, end.replica_id);
  BackToPending("BackOff", message);
  job().retry_time = now_ + wait;
  outcome_.waits_for = WaitsFor::kRetryTime;
}

absl::Duration Step::BackOff(int failures) {
  return BackoffAfter(failures, policy_.retry_backoff, policy_.max_retry_backoff);
}

void Step::BackToPending(absl::string_view reason, std::string message) {
  job().phase = Phase::kPending;
  job().allocation.clear();
  Explain(reason, std::move(message));
  outcome_.waits_for = WaitsFor::kAllocation;
}

void Step::Succeeded() {
  const std::string message = absl::StrCat("all ", Plural(size()), " of group ", job().group, " finished");
  Finish(Phase::kSucceeded, "Completed", message);
  Say(false, "Succeeded", message);
}

void Step::Cancelled() {
  Finish(Phase::kCancelled, "Cancelled", "cancelled by its user");
  Say(false, "Cancelled", "cancelled by its user; no replica is left");
}

}  // namespace adaptdl::jobs
