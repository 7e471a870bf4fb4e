#include "libs/jobs/state_machine.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/jobs/verdict.h"

namespace adaptdl::jobs {
namespace {

std::string Plural(int count) { return absl::StrCat(count, count == 1 ? " replica" : " replicas"); }

std::string DescribeNodes(const std::vector<std::string>& nodes) {
  const std::set<std::string> distinct(nodes.begin(), nodes.end());
  return absl::StrCat(Plural(static_cast<int>(nodes.size())), " on ", absl::StrJoin(distinct, ", "));
}

std::string Because(absl::string_view reason) { return reason.empty() ? "" : absl::StrCat(": ", reason); }

// One step in progress: the inputs, and the outcome as it grows.
class Step {
 public:
  Step(const Job& job, const std::vector<Replica>& replicas, const Desired& desired, absl::Time now,
       const Policy& policy)
      : replicas_(replicas), desired_(desired), now_(now), policy_(policy) {
    outcome_.job = job;
    for (const Replica& replica : replicas) {
      if (replica.group == job.group && job.group > 0 && !job.allocation.empty()) members_.push_back(replica);
      if (IsLive(replica)) any_live_ = true;
    }
  }

  Outcome Run() {
    StopStrays();
    switch (outcome_.job.phase) {
      case Phase::kPending:
        Pending();
        break;
      case Phase::kStarting:
      case Phase::kRunning:
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
    return std::move(outcome_);
  }

 private:
  Job& job() { return outcome_.job; }
  int size() { return static_cast<int>(job().allocation.size()); }

  void Say(bool warning, absl::string_view reason, std::string message, std::string node = "",
           std::string replica_id = "") {
    outcome_.events.push_back(
        {warning, std::string(reason), std::move(message), std::move(node), std::move(replica_id)});
  }

  void Explain(absl::string_view reason, std::string message) {
    job().reason = std::string(reason);
    job().message = std::move(message);
  }

  void Order(const Replica& replica, absl::string_view reason) {
    if (!IsLive(replica) || replica.stop_requested) return;
    outcome_.stops.push_back({replica.id, replica.node, std::string(reason)});
  }

  // Replicas that belong to no current group must never be there; should one be, it goes.
  void StopStrays() {
    for (const Replica& replica : replicas_) {
      const bool member = replica.group == job().group && !job().allocation.empty();
      if (!member || IsTerminal(job().phase)) Order(replica, "its group is over");
    }
  }

  void Finish(Phase phase, absl::string_view reason, std::string message) {
    LeaveRunning();
    job().phase = phase;
    job().allocation.clear();
    job().retry_time = absl::InfinitePast();
    job().rescaling_since = absl::InfinitePast();
    job().completion_time = now_;
    Explain(reason, std::move(message));
    outcome_.waits_for = WaitsFor::kNothing;
  }

  void LeaveRunning() {
    if (job().running_since == absl::InfinitePast()) return;
    const absl::Duration ran = std::max(absl::ZeroDuration(), now_ - job().running_since);
    job().running_time += ran;
    job().running_since = absl::InfinitePast();
    if (ran >= policy_.healthy_after) job().failures = 0;
  }

  void Pending() {
    if (any_live_) {
      outcome_.waits_for = WaitsFor::kReplicas;
    } else if (job().cancel_requested) {
      Cancelled();
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

  void Launch() {
    if (job().group > 0) ++job().restarts;
    ++job().group;
    job().phase = Phase::kStarting;
    job().allocation = desired_.nodes;
    job().retry_time = absl::InfinitePast();
    Explain("Launching", absl::StrCat("launches ", DescribeNodes(desired_.nodes)));
    Say(false, "Allocated",
        absl::StrCat("group ", job().group, ": ", DescribeNodes(desired_.nodes), Because(desired_.reason)));
    outcome_.launch = LaunchGroup{job().group, desired_.nodes};
    outcome_.waits_for = WaitsFor::kReplicas;
  }

  // STARTING and RUNNING.
  void Active() {
    outcome_.waits_for = WaitsFor::kReplicas;
    int live = 0;
    int launching = 0;
    int done = 0;
    for (const Replica& replica : members_) {
      live += IsLive(replica);
      launching += replica.state == ReplicaState::kLaunching;
      done += FateOf(replica) == Fate::kDone;
    }
    const bool lost_one = live + done < size();
    if (lost_one) {
      StopAfterLoss();
    } else if (job().cancel_requested) {
      Stop("Cancelled", "cancelled by its user");
    } else if (done == size()) {
      Succeeded();
    } else if (MustMove()) {
      Move();
    } else if (job().phase == Phase::kStarting && launching == 0) {
      EnterRunning();
    }
  }

  // A job that may not be preempted keeps what it has, and nobody stops for nodes that can't be had now. Room
  // does not matter here: a re-scale mostly wants the room that the job itself holds.
  bool MustMove() {
    if (!job().preemptible || desired_.nodes == job().allocation) return false;
    return desired_.nodes.empty() || desired_.nodes_ready;
  }

  void Move() {
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
    if (job().phase == Phase::kRunning) job().rescaling_since = now_;
    Stop("Rescaling", message);
  }

  void EnterRunning() {
    job().phase = Phase::kRunning;
    job().running_since = now_;
    if (job().start_time == absl::InfinitePast()) job().start_time = now_;
    if (!job().tells_progress) EndRescale(now_, &job());
    Explain("", "");
    Say(false, "GroupStarted",
        absl::StrCat("group ", job().group, " runs with ", DescribeNodes(job().allocation)));
  }

  // Some member is gone: the others can't go on without it.
  void StopAfterLoss() {
    job().rescaling_since = absl::InfinitePast();
    std::string message;
    bool failed = false;
    for (const Replica& replica : members_) {
      const Fate fate = FateOf(replica);
      if (fate == Fate::kLive || fate == Fate::kDone) continue;
      const std::string text =
          absl::StrCat("replica ", replica.rank, " on node ", replica.node, " ", DescribeEnd(replica));
      const bool own = fate == Fate::kFailed || fate == Fate::kPeerLost || fate == Fate::kStoppedUnasked;
      Say(true, own ? "ReplicaFailed" : "ReplicaLost", text, replica.node, replica.id);
      if (message.empty() || (own && !failed)) message = text;
      failed = failed || own;
    }
    if (message.empty()) {
      message = absl::StrCat(size() - static_cast<int>(members_.size()), " of ", Plural(size()), " gone");
      Say(true, "ReplicaLost", message);
    }
    Stop(failed ? "ReplicaFailed" : "ReplicaLost", message);
  }

  void Stop(absl::string_view reason, const std::string& message) {
    LeaveRunning();
    job().phase = Phase::kStopping;
    Explain(reason, message);
    StopMembers();
    outcome_.waits_for = WaitsFor::kReplicas;
  }

  void StopMembers() {
    for (const Replica& replica : members_) {
      Order(replica, job().cancel_requested ? "the job was cancelled"
                                            : absl::StrCat(job().reason, Because(job().message)));
    }
  }

  void Stopping() {
    if (any_live_) {
      if (job().cancel_requested && job().reason != "Cancelled")
        Explain("Cancelled", "cancelled by its user");
      StopMembers();
      outcome_.waits_for = WaitsFor::kReplicas;
      return;
    }
    const Verdict verdict = JudgeGroup(members_, size());
    if (job().cancel_requested) {
      Cancelled();
    } else if (verdict.completed) {
      Succeeded();
    } else if (verdict.own_failure) {
      Failure(verdict);
    } else {
      if (verdict.lost) job().rescaling_since = absl::InfinitePast();
      Say(false, "GroupStopped", absl::StrCat("group ", job().group, " has stopped: ", verdict.message));
      BackToPending("Queued", absl::StrCat("is to start again", Because(verdict.message)));
    }
  }

  void Failure(const Verdict& verdict) {
    job().rescaling_since = absl::InfinitePast();
    ++job().failures;
    if (job().failures > job().max_restarts) {
      const std::string message = absl::StrCat(verdict.message, " (failure ", job().failures,
                                               ", max_restarts is ", job().max_restarts, ")");
      Finish(Phase::kFailed, "MaxRestartsExceeded", message);
      Say(true, "Failed", message, verdict.node, verdict.replica_id);
      return;
    }
    absl::Duration wait = policy_.retry_backoff;
    for (int i = 1; i < job().failures && wait < policy_.max_retry_backoff; ++i) wait *= 2;
    wait = std::min(wait, policy_.max_retry_backoff);
    const std::string message =
        absl::StrCat("failure ", job().failures, " of at most ", job().max_restarts, ", tries again in ",
                     absl::FormatDuration(wait), ": ", verdict.message);
    Say(true, "BackOff", message, verdict.node, verdict.replica_id);
    BackToPending("BackOff", message);
    job().retry_time = now_ + wait;
    outcome_.waits_for = WaitsFor::kRetryTime;
  }

  void BackToPending(absl::string_view reason, std::string message) {
    job().phase = Phase::kPending;
    job().allocation.clear();
    Explain(reason, std::move(message));
    outcome_.waits_for = WaitsFor::kAllocation;
  }

  void Succeeded() {
    const std::string message = absl::StrCat("all ", Plural(size()), " of group ", job().group, " finished");
    Finish(Phase::kSucceeded, "Completed", message);
    Say(false, "Succeeded", message);
  }

  void Cancelled() {
    Finish(Phase::kCancelled, "Cancelled", "cancelled by its user");
    Say(false, "Cancelled", "cancelled by its user; no replica is left");
  }

  const std::vector<Replica>& replicas_;
  const Desired& desired_;
  const absl::Time now_;
  const Policy& policy_;
  Outcome outcome_;
  // Replicas of the current group.
  std::vector<Replica> members_;
  // Whether a replica of any group may still be there.
  bool any_live_ = false;
};

}  // namespace

Outcome Advance(const Job& job, const std::vector<Replica>& replicas, const Desired& desired, absl::Time now,
                const Policy& policy) {
  return Step(job, replicas, desired, now, policy).Run();
}

void EndRescale(absl::Time now, Job* job) {
  if (job->rescaling_since == absl::InfinitePast()) return;
  const absl::Duration took = std::max(absl::ZeroDuration(), now - job->rescaling_since);
  const bool first = job->rescale_duration == absl::ZeroDuration();
  job->rescale_duration = first ? took : (job->rescale_duration + took) / 2;
  job->rescaling_since = absl::InfinitePast();
}

bool Settled(const Job& before, const Outcome& outcome) {
  return outcome.job.phase == before.phase && !outcome.launch.has_value() && outcome.stops.empty();
}

}  // namespace adaptdl::jobs
