#include "libs/jobs/state_machine.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/jobs/planning.h"
#include "libs/jobs/verdict.h"

namespace adaptdl::jobs {
namespace {

std::string Plural(int count) { return absl::StrCat(count, count == 1 ? " replica" : " replicas"); }

std::string DescribeNodes(const std::vector<std::string>& nodes) {
  const std::set<std::string> distinct(nodes.begin(), nodes.end());
  return absl::StrCat(Plural(static_cast<int>(nodes.size())), " on ", absl::StrJoin(distinct, ", "));
}

std::string Rounded(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(1)));
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

 private:
  // What is seen of the members of the current group.
  struct Tally {
    int live = 0;
    int launching = 0;
    int done = 0;
    // Left as an offered plan told them to.
    int left = 0;
    // Ended, and the job has gone on without them.
    int judged = 0;
  };

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

  void Order(const Replica& replica, absl::string_view reason, bool at_once = false) {
    if (!IsLive(replica) || replica.stop_requested) return;
    outcome_.stops.push_back({replica.id, replica.node, std::string(reason), at_once});
  }

  // Replicas that belong neither to the current group nor to a plan go.
  void StopStrays() {
    for (const Replica& replica : replicas_) {
      const bool member = replica.group == job().group && !job().allocation.empty();
      const bool planned = std::any_of(job().plans.begin(), job().plans.end(),
                                       [&](const Plan& p) { return RankIn(p, replica.id) >= 0; });
      if (IsTerminal(job().phase) || (!member && !planned)) Order(replica, "its group is over");
    }
  }

  // The plan that counts; null if there is none.
  Plan* plan() { return job().plans.empty() ? nullptr : &job().plans.back(); }

  void Finish(Phase phase, absl::string_view reason, std::string message) {
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

  void DropPlans() {
    job().plans.clear();
    job().rescale_note.clear();
  }

  int64_t NextGroup() {
    job().last_group = std::max(job().last_group, job().group) + 1;
    return job().last_group;
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
    job().group = NextGroup();
    job().phase = Phase::kStarting;
    job().allocation = desired_.nodes;
    job().retry_time = absl::InfinitePast();
    Explain("Launching", absl::StrCat("launches ", DescribeNodes(desired_.nodes)));
    Say(false, "Allocated",
        absl::StrCat("group ", job().group, ": ", DescribeNodes(desired_.nodes), Because(desired_.reason)));
    outcome_.launch = LaunchGroup{job().group, desired_.nodes};
    outcome_.waits_for = WaitsFor::kReplicas;
  }

  // STARTING, RUNNING and RESCALING.
  void Active() {
    outcome_.waits_for = WaitsFor::kReplicas;
    if (job().phase != Phase::kStarting && job().retry_time <= now_) job().retry_time = absl::InfinitePast();
    const Tally tally = Count();
    if (tally.live + tally.done + tally.left + tally.judged < size()) {
      if (!Recover()) StopAfterLoss();
    } else if (job().cancel_requested) {
      Stop("Cancelled", "cancelled by its user");
    } else if (tally.live == 0 && tally.done > 0) {
      Succeeded();
    } else if (tally.live == 0) {
      StopAfterLoss();
    } else if (job().phase != Phase::kStarting && CanChangeInPlace()) {
      if (tally.done == 0 && !EndSuspicion() && !GiveUpAbsent()) Reconcile();
    } else if (MustMove()) {
      Move();
    } else if (job().phase == Phase::kStarting && tally.launching == 0) {
      EnterRunning();
    }
  }

  Tally Count() {
    Tally tally;
    for (const Replica& replica : members_) {
      const Fate fate = FateOf(replica);
      tally.live += fate == Fate::kLive;
      tally.launching += replica.state == ReplicaState::kLaunching;
      tally.done += fate == Fate::kDone && !HasLeft(replica);
      tally.left += HasLeft(replica);
      tally.judged += !HasLeft(replica) && IsJudged(replica);
    }
    return tally;
  }

  // Whether it has ended as an offered plan told it to.
  bool HasLeft(const Replica& replica) {
    const Fate fate = FateOf(replica);
    const bool as_told = fate == Fate::kStopped || fate == Fate::kStoppedUnasked || fate == Fate::kDone;
    return as_told && LeftOut(replica);
  }
  // Whether an offered plan leaves out what was a member before: it may be gone, or many steps behind, and
  // never comes back.
  bool LeftOut(const Replica& replica) {
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

  // Whether it has ended, and the job goes on without it anyway.
  bool IsJudged(const Replica& replica) {
    const Fate fate = FateOf(replica);
    if (fate == Fate::kLive || fate == Fate::kDone) return false;
    return replica.judged || (plan() != nullptr && plan()->firm && RankIn(*plan(), replica.id) < 0);
  }

  // A job that may not be preempted keeps what it has, and nobody stops for nodes that can't be had now. Room
  // does not matter here: a re-scale mostly wants the room that the job itself holds.
  bool MustMove() {
    if (!job().preemptible || SameNodes(desired_.nodes, job().allocation)) return false;
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
    if (job().phase != Phase::kStarting) job().rescaling_since = now_;
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

  // Says how a member ended. Returns what it says.
  std::string TellEnd(const Replica& replica, bool own) {
    std::string text =
        absl::StrCat("replica ", replica.rank, " on node ", replica.node, " ", DescribeEnd(replica));
    Say(true, own ? "ReplicaFailed" : "ReplicaLost", text, replica.node, replica.id);
    return text;
  }

  // Some member is gone: the others can't go on without it.
  void StopAfterLoss() {
    job().rescaling_since = absl::InfinitePast();
    std::string message;
    bool failed = false;
    for (const Replica& replica : members_) {
      const Fate fate = FateOf(replica);
      if (fate == Fate::kLive || fate == Fate::kDone || HasLeft(replica) || replica.judged) continue;
      const bool own = fate == Fate::kFailed || fate == Fate::kPeerLost || fate == Fate::kStoppedUnasked;
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

  void Stop(absl::string_view reason, const std::string& message) {
    LeaveRunning();
    job().phase = Phase::kStopping;
    DropPlans();
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
    const absl::Duration wait = BackOff(job().failures);
    const std::string message =
        absl::StrCat("failure ", job().failures, " of at most ", job().max_restarts, ", tries again in ",
                     absl::FormatDuration(wait), ": ", verdict.message);
    Say(true, "BackOff", message, verdict.node, verdict.replica_id);
    BackToPending("BackOff", message);
    job().retry_time = now_ + wait;
    outcome_.waits_for = WaitsFor::kRetryTime;
  }

  absl::Duration BackOff(int failures) {
    absl::Duration wait = policy_.retry_backoff;
    for (int i = 1; i < failures && wait < policy_.max_retry_backoff; ++i) wait *= 2;
    return std::min(wait, policy_.max_retry_backoff);
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

  // ---- Changes in place. RUNNING and RESCALING only.

  bool CanChangeInPlace() {
    return job().preemptible && job().rescales_in_place &&
           std::all_of(members_.begin(), members_.end(), [](const Replica& replica) {
             return !IsLive(replica) || (replica.joined && replica.rescales_in_place);
           });
  }

  // Members that can be in the next group, by rank.
  std::vector<PlanMember> Staying() {
    std::vector<PlanMember> staying;
    for (const Replica& replica : ByRank(members_)) {
      if (IsLive(replica) && !replica.stop_requested && !LeftOut(replica)) {
        staying.push_back({replica.id, replica.node});
      }
    }
    return staying;
  }
  static std::vector<Replica> ByRank(std::vector<Replica> replicas) {
    std::sort(replicas.begin(), replicas.end(),
              [](const Replica& a, const Replica& b) { return a.rank < b.rank; });
    return replicas;
  }

  const Replica* Find(const std::string& id) {
    for (const Replica& replica : replicas_) {
      if (replica.id == id) return &replica;
    }
    return nullptr;
  }
  bool IsMember(const std::string& id) {
    return std::any_of(members_.begin(), members_.end(), [&](const Replica& r) { return r.id == id; });
  }

  // Newcomers that live: those of the plan first, in its order.
  std::vector<PlanMember> LiveNewcomers() {
    std::vector<PlanMember> newcomers;
    const auto add = [&](const Replica* replica) {
      if (replica == nullptr || !IsLive(*replica) || replica->stop_requested) return;
      // Those of older groups have left, and have no way back.
      if (IsMember(replica->id) || LeftOut(*replica) || replica->group <= job().group) return;
      const PlanMember member{replica->id, replica->node};
      if (std::find(newcomers.begin(), newcomers.end(), member) == newcomers.end()) {
        newcomers.push_back(member);
      }
    };
    if (plan() != nullptr) {
      for (const PlanMember& member : plan()->members) add(Find(member.replica_id));
    }
    for (const Replica& replica : replicas_) add(&replica);
    return newcomers;
  }

  // Goes on with those that live, if members were lost from under them. False: all have to start again.
  bool Recover() {
    const bool running = job().phase == Phase::kRunning || job().phase == Phase::kRescaling;
    if (!running || job().cancel_requested || !CanChangeInPlace()) return false;
    if (static_cast<int>(members_.size()) < size()) return false;
    bool failed = false;
    std::vector<const Replica*> ended;
    for (const Replica& replica : members_) {
      const Fate fate = FateOf(replica);
      if (fate == Fate::kLive || HasLeft(replica) || IsJudged(replica)) continue;
      // Whoever has finished, or leaves with the whole group, does not come back for another one.
      if (fate != Fate::kFailed && fate != Fate::kLost) return false;
      failed = failed || fate == Fate::kFailed;
      ended.push_back(&replica);
    }
    const std::vector<PlanMember> next = AllowedPart(Staying());
    if (next.empty()) return false;
    // What fails in the wake of a failure does not count again.
    const bool counts = failed && (plan() == nullptr || !plan()->firm);
    if (counts && !CountFailure()) return false;
    std::string message;
    for (const Replica* replica : ended) {
      const bool own = FateOf(*replica) == Fate::kFailed;
      const std::string text = TellEnd(*replica, own);
      if (message.empty() || (own && !failed)) message = text;
      outcome_.judged.push_back(replica->id);
    }
    PlanRecovery(next, message);
    return true;
  }

  // Counts an own failure that the job survives. False: it was one too many, and nothing has changed.
  bool CountFailure() {
    const absl::Duration ran = std::max(absl::ZeroDuration(), now_ - job().running_since);
    const int before = ran >= policy_.healthy_after ? 0 : job().failures;
    if (before + 1 > job().max_restarts) return false;
    // A new stretch begins.
    LeaveRunning();
    job().running_since = now_;
    job().failures = before + 1;
    job().retry_time = now_ + BackOff(job().failures);
    return true;
  }

  // As many of `members` as the job may have, lowest ranks first.
  std::vector<PlanMember> AllowedPart(std::vector<PlanMember> members) {
    members.resize(LargestAllowedSize(job(), static_cast<int>(members.size())));
    return members;
  }

  void PlanRecovery(const std::vector<PlanMember>& next, const std::string& cause) {
    const int64_t before = job().group;
    AddPlan(next, true);
    plan()->broken = true;
    const std::string message = absl::StrCat("group ", before, " goes on as group ", plan()->group, " with ",
                                             DescribeNodes(NodesOf(next)), Because(cause));
    Say(true, "Recovering", message);
    Explain("Recovering", message);
    Offer();
  }

  // Whether the newest plan is what a replica can follow that says that the group with this number is broken:
  // it is newer, and without newcomers.
  bool IsAnswered(int64_t group) {
    const Plan* newest = nullptr;
    const Plan* tried = nullptr;
    for (const Plan& p : job().plans) {
      if (p.offered) newest = &p;
      if (p.group == group) tried = &p;
    }
    if (group < job().group) return true;
    if (newest == nullptr || newest->group <= group) return false;
    return std::all_of(newest->members.begin(), newest->members.end(), [&](const PlanMember& member) {
      return tried == nullptr ? IsMember(member.replica_id) : RankIn(*tried, member.replica_id) >= 0;
    });
  }

  // Deals with reports that the group is broken. False: there are none that no plan answers yet.
  bool EndSuspicion() {
    std::vector<PlanMember> reporters;
    std::vector<const Replica*> others;
    absl::Time first = absl::InfiniteFuture();
    for (const PlanMember& member : Staying()) {
      const Replica* replica = Find(member.replica_id);
      if (replica->broken_group > 0 && !IsAnswered(replica->broken_group)) {
        reporters.push_back(member);
        first = std::min(first, replica->broken_since);
      } else {
        others.push_back(replica);
      }
    }
    if (reporters.empty()) return false;
    const bool wait = std::any_of(others.begin(), others.end(),
                                  [&](const Replica* replica) { return now_ < AnswerDue(*replica, first); });
    if (!wait) GoOnWithout(others, reporters, "has not said that its group is broken");
    return true;
  }

  // When a member must have said that its group is broken, after another one did at `first`. It says so only
  // when it comes to its next collective.
  absl::Time AnswerDue(const Replica& replica, absl::Time first) {
    const absl::Time due = first + policy_.suspicion;
    switch (PulseOf(replica)) {
      case Pulse::kUnknown:  // Perhaps it is us who were away.
        return std::max(due, first + policy_.silence);
      case Pulse::kSilent:
      case Pulse::kStuck:
        return due;
      case Pulse::kWaits:
        return std::max(due, replica.heard - replica.waiting + policy_.longest_wait);
      case Pulse::kWorks:
        return std::max(due, first + std::max(policy_.busy_suspicion, Patience()));
    }
    return due;
  }

  // Gives up members that others wait for and that are silent, or do nothing. False: there are none.
  bool GiveUpAbsent() {
    absl::Duration waited = absl::ZeroDuration();
    for (const PlanMember& member : Staying()) {
      const Replica* replica = Find(member.replica_id);
      if (PulseOf(*replica) == Pulse::kWaits) waited = std::max(waited, replica->waiting);
    }
    // Who waits for nobody may train on, whether we hear of it or not.
    if (waited < policy_.silence) return false;
    std::vector<PlanMember> present;
    std::vector<const Replica*> absent;
    for (const PlanMember& member : Staying()) {
      const Replica* replica = Find(member.replica_id);
      const Pulse pulse = PulseOf(*replica);
      if (pulse == Pulse::kSilent || (pulse == Pulse::kStuck && waited >= Patience())) {
        absent.push_back(replica);
      } else {
        present.push_back(member);
      }
    }
    if (absent.empty()) return false;
    GoOnWithout(absent, present, "holds the others up");
    return true;
  }

  // What the last heartbeat of a replica means.
  enum class Pulse { kUnknown, kSilent, kWaits, kWorks, kStuck };
  Pulse PulseOf(const Replica& replica) {
    if (replica.heard == absl::InfinitePast()) return Pulse::kUnknown;
    if (now_ - replica.heard > policy_.silence) return Pulse::kSilent;
    if (replica.waiting > absl::ZeroDuration()) return Pulse::kWaits;
    const absl::Duration patience = Patience();
    return patience > absl::ZeroDuration() && replica.idle >= patience ? Pulse::kStuck : Pulse::kWorks;
  }
  // The longest of the members', since new ones do not know theirs yet. Zero: nobody does.
  absl::Duration Patience() {
    absl::Duration longest = absl::ZeroDuration();
    for (const Replica& replica : members_) longest = std::max(longest, replica.patience);
    return longest;
  }

  // `absent` are stopped, `present` go on; `what` tells what is wrong with the absent ones.
  void GoOnWithout(const std::vector<const Replica*>& absent, const std::vector<PlanMember>& present,
                   absl::string_view what) {
    const std::string cause = absent.empty()
                                  ? "all its members say that it is broken"
                                  : absl::StrCat(Plural(static_cast<int>(absent.size())), " did not answer");
    const std::vector<PlanMember> next = AllowedPart(present);
    if (next.empty()) {
      Stop("GroupBroken", cause);
      return;
    }
    for (const Replica* replica : absent) {
      Say(true, "ReplicaLost",
          absl::StrCat("replica ", replica->rank, " on node ", replica->node, " ", what, ": ",
                       DescribePulse(*replica)),
          replica->node, replica->id);
      Order(*replica, "its group goes on without it", /*at_once=*/true);
    }
    if (!absent.empty()) HoldNewcomersBack();
    PlanRecovery(next, cause);
  }

  std::string DescribePulse(const Replica& replica) {
    switch (PulseOf(replica)) {
      case Pulse::kUnknown:
        return "it has sent no heartbeat";
      case Pulse::kSilent:
        return absl::StrCat("its last heartbeat came ", Rounded(now_ - replica.heard), " ago");
      case Pulse::kStuck:
        return absl::StrCat("it has done nothing for ", Rounded(replica.idle));
      case Pulse::kWaits:
        return absl::StrCat("it waits itself, for ", Rounded(replica.waiting));
      case Pulse::kWorks:
        return "it works on";
    }
    return "";
  }

  void HoldNewcomersBack() {
    ++job().newcomer_failures;
    job().retry_time = std::max(job().retry_time, now_ + BackOff(job().newcomer_failures));
  }

  // Brings the job nearer to what the allocator decided.
  void Reconcile() {
    if (desired_.nodes.empty()) {
      Move();
      return;
    }
    if (plan() != nullptr && plan()->firm) {
      const auto& members = plan()->members;
      const bool fits = std::all_of(members.begin(), members.end(),
                                    [&](const PlanMember& member) { return IsMember(member.replica_id); });
      if (fits) return;
      // The replicas have chosen an older plan meanwhile.
      const std::vector<PlanMember> next = AllowedPart(Staying());
      if (next.empty()) {
        Stop("GroupBroken", "no member of the group can go on");
      } else {
        PlanRecovery(next, "the replicas had changed over before");
      }
      return;
    }
    NoticeLostNewcomers();
    // What can't be had now is not aimed at.
    std::vector<std::string> goal = desired_.nodes;
    if (!desired_.nodes_ready) goal = plan() != nullptr ? NodesOf(plan()->members) : job().allocation;
    const bool may_launch = desired_.nodes_ready && job().retry_time <= now_;
    const std::vector<PlanMember> current = Staying();
    if (current.empty()) return;  // All were told to go, and will.
    const std::vector<PlanMember> ready = LiveNewcomers();
    Target target = ChooseMembers(current, ready, goal, may_launch);
    if (!AllowsSize(job(), static_cast<int>(target.members.size()))) {
      target.members.resize(target.survivors);
      const bool leaves = target.members.size() < current.size();
      if (!leaves || !AllowsSize(job(), target.survivors)) {
        if (may_launch) {
          Move();  // There is no way in place.
          return;
        }
        target.members = current;
        target.survivors = static_cast<int>(current.size());
      }
    }
    if (plan() == nullptr || !IsPlanFor(*plan(), target)) Replan(target);
    if (plan() != nullptr) GoOnWithPlan();
  }

  // Says which newcomers have ended before they were members.
  void NoticeLostNewcomers() {
    if (plan() == nullptr) return;
    bool lost = false;
    for (const PlanMember& member : plan()->members) {
      const Replica* replica = member.replica_id.empty() ? nullptr : Find(member.replica_id);
      if (replica == nullptr || IsLive(*replica) || IsMember(replica->id) || replica->judged) continue;
      Say(true, "NewcomerLost", absl::StrCat("newcomer on node ", replica->node, " ", DescribeEnd(*replica)),
          replica->node, replica->id);
      outcome_.judged.push_back(replica->id);
      lost = true;
    }
    if (lost) HoldNewcomersBack();
  }

  // Replaces the plan by one for `target`.
  void Replan(const Target& target) {
    const bool changes = target.newcomers() > 0 || target.survivors < size();
    if (plan() != nullptr && !plan()->offered) job().plans.pop_back();
    if (plan() == nullptr && !changes) {
      if (job().phase == Phase::kRescaling) Say(false, "RescaleDropped", "keeps what it has");
      job().phase = Phase::kRunning;
      Explain("", "");
      return;
    }
    if (plan() != nullptr && IsPlanFor(*plan(), target)) return;
    AddPlan(target.members, false);
    const std::string message =
        absl::StrCat("group ", job().group, " → ", plan()->group, ", from ", Plural(size()), " to ",
                     DescribeNodes(NodesOf(target.members)), Because(desired_.reason));
    Say(false, "Rescaling", message);
    Explain("Rescaling", message);
  }

  void AddPlan(const std::vector<PlanMember>& members, bool firm) {
    if (plan() != nullptr && !plan()->offered) job().plans.pop_back();
    Plan next;
    next.group = NextGroup();
    next.members = members;
    next.firm = firm;
    next.since = now_;
    job().plans.push_back(std::move(next));
    job().phase = Phase::kRescaling;
  }

  void GoOnWithPlan() {
    if (plan()->offered) return;
    LaunchNewcomers();
    bool ready = true;
    bool launched = true;
    for (const PlanMember& member : plan()->members) {
      const Replica* replica = Find(member.replica_id);
      ready = ready && replica != nullptr && replica->joined;
      launched = launched && !member.replica_id.empty();
    }
    if (ready) {
      Offer();
    } else if (!launched) {
      outcome_.waits_for = WaitsFor::kRoom;
      if (now_ - plan()->since >= policy_.room_patience) MakeRoom();
    }
  }

  void LaunchNewcomers() {
    std::map<std::string, int> free = desired_.free;
    for (size_t rank = 0; rank < plan()->members.size(); ++rank) {
      PlanMember& member = plan()->members[rank];
      if (!member.replica_id.empty() || free[member.node] == 0) continue;
      --free[member.node];
      member.replica_id = absl::StrCat(job().id_prefix, "-", plan()->group, "-", rank);
      outcome_.newcomers.push_back({member.replica_id, plan()->group, static_cast<int>(rank), member.node});
    }
  }

  // Newcomers do not get the room that they are to have, perhaps because others wait for what this job holds.
  void MakeRoom() {
    const std::vector<PlanMember> current = Staying();
    std::vector<PlanMember> staying;
    for (const PlanMember& member : plan()->members) {
      if (IsMember(member.replica_id)) staying.push_back(member);
    }
    if (!desired_.nodes_ready) return;
    if (!HoldsAnyOf(desired_.nodes)) {
      Move();
    } else if (staying.size() < current.size() && AllowsSize(job(), static_cast<int>(staying.size()))) {
      AddPlan(staying, true);
      const std::string message =
          absl::StrCat("group ", job().group, " → ", plan()->group, ", to ", DescribeNodes(NodesOf(staying)),
                       " first: there is no room for the others yet");
      Say(false, "Rescaling", message);
      Explain("Rescaling", message);
      Offer();
    }
  }
  bool HoldsAnyOf(const std::vector<std::string>& nodes) {
    return std::any_of(members_.begin(), members_.end(), [&](const Replica& replica) {
      return std::find(nodes.begin(), nodes.end(), replica.node) != nodes.end();
    });
  }

  void Offer() {
    plan()->offered = true;
    outcome_.offer = true;
    const bool newcomers = std::any_of(plan()->members.begin(), plan()->members.end(),
                                       [&](const PlanMember& m) { return !IsMember(m.replica_id); });
    if (newcomers) plan()->ready_after = now_ - plan()->since;
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
  return outcome.job.phase == before.phase && outcome.job.plans == before.plans &&
         !outcome.launch.has_value() && outcome.stops.empty();
}

std::optional<Entered> EnterGroup(const Job& job, int64_t group) {
  const auto plan = std::find_if(job.plans.begin(), job.plans.end(),
                                 [&](const Plan& p) { return p.offered && p.group == group; });
  if (job.phase != Phase::kRescaling || plan == job.plans.end()) return std::nullopt;
  Entered entered;
  entered.job = job;
  Job& next = entered.job;
  next.group = group;
  next.allocation = NodesOf(plan->members);
  for (const PlanMember& member : plan->members) entered.members.push_back(member.replica_id);
  // A newer plan that was not offered yet is made again, for the new members.
  next.plans.erase(std::remove_if(next.plans.begin(), next.plans.end(),
                                  [&](const Plan& p) { return p.group <= group || !p.offered; }),
                   next.plans.end());
  if (next.plans.empty()) {
    next.phase = Phase::kRunning;
    next.reason.clear();
    next.message.clear();
  }
  ++next.rescales;
  // Newcomers are what was launched for a plan.
  next.newcomer_failures = plan->firm ? next.newcomer_failures : 0;
  next.rescale_note = absl::StrCat("group ", job.group, " → ", group, ", ", job.allocation.size(), " to ",
                                   Plural(static_cast<int>(next.allocation.size())));
  if (plan->ready_after > absl::ZeroDuration()) {
    absl::StrAppend(&next.rescale_note, "; ready after ", Rounded(plan->ready_after));
  }
  entered.events.push_back({false, "GroupStarted",
                            absl::StrCat("group ", group, " runs with ", DescribeNodes(next.allocation)), "",
                            ""});
  return entered;
}

bool ObserveRescale(const RescaleTimes& times, Job* job, Event* event) {
  if (times.group != job->group || job->rescale_note.empty()) return false;
  const absl::Duration pause = times.rebuild + times.synchronize + times.first_step;
  *event = {false, "Rescaled",
            absl::StrCat(job->rescale_note, ", agreed ", Rounded(times.agree), ", pause ", Rounded(pause),
                         " (rebuild ", Rounded(times.rebuild), ", synchronise ", Rounded(times.synchronize),
                         ", first step ", Rounded(times.first_step), ")"),
            "", ""};
  const bool first = job->rescale_duration == absl::ZeroDuration();
  job->rescale_duration = first ? pause : (job->rescale_duration + pause) / 2;
  job->rescale_note.clear();
  return true;
}

}  // namespace adaptdl::jobs
