// How the state machine takes one step: for Advance() (state_machine.h), of which this is the inside. What
// becomes of a job from its submission to its end is in step.cc, how a group goes on without lost members in
// step_recovery.cc, and how its replica set is changed while it trains in step_changes.cc.
//
// Thread-safety: one thread at a time. Made for one step, and refers to what it is given.

#ifndef ADAPTDL_LIBS_JOBS_STEP_H_
#define ADAPTDL_LIBS_JOBS_STEP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/jobs/group_end.h"
#include "libs/jobs/job.h"
#include "libs/jobs/planning.h"
#include "libs/jobs/state_machine.h"

namespace adaptdl::jobs {

// Reason of what does not come to run within Policy::start_deadline.
inline constexpr char kStartDeadlineExceeded[] = "StartDeadlineExceeded";

// One step in progress: the inputs, and the outcome as it grows.
class Step {
 public:
  Step(const Job& job, const std::vector<Replica>& replicas, const Desired& desired, absl::Time now,
       const Policy& policy);
  Outcome Run();

 private:
  // What is seen of the members of the current group.
  struct Tally {
    int live = 0;
    int launching = 0;
    int done = 0;
    // Left as an offered plan told them to.
    int left = 0;
    // Ended, and the job has gone on without them.
    int end_handled = 0;
  };
  Job& job() { return outcome_.job; }
  int size() { return static_cast<int>(job().allocation.size()); }

  void Say(bool warning, absl::string_view reason, std::string message, std::string node = "",
           std::string replica_id = "");
  void Explain(absl::string_view reason, std::string message);
  void Order(const Replica& replica, absl::string_view reason, bool at_once = false);

  // Replicas that belong neither to the current group nor to a plan go.
  void StopStrays();

  // The plan that counts; null if there is none.
  Plan* plan() { return job().plans.empty() ? nullptr : &job().plans.back(); }

  void Finish(Phase phase, absl::string_view reason, std::string message);
  void DropPlans();
  int64_t NextGroup();
  void LeaveRunning();

  // ---- step.cc: one function for each phase, and what follows from them.

  void Pending();
  void Launch();

  // STARTING, RUNNING and RESCALING.
  void Active();
  Tally Count();
  // Whether members are still to say again how they are reached: until then nothing can be planned with them.
  bool AwaitsMembers();

  // Whether it has ended as an offered plan told it to.
  bool HasLeft(const Replica& replica);
  // Whether an offered plan leaves out what was a member before: it may be gone, or many steps behind, and
  // never comes back.
  bool LeftOut(const Replica& replica);

  // Whether it has ended, and the job goes on without it anyway.
  bool IsEndHandled(const Replica& replica);

  // A job that may not be preempted keeps what it has, and nobody stops for nodes that can't be had now. Room
  // does not matter here: a re-scale mostly wants the room that the job itself holds.
  bool MustMove();
  void Move();
  // Whether replicas were launched so long ago that they will not come to run any more.
  bool StartsTooLate(const Tally& tally);
  void GiveUpStart(const Tally& tally);
  void EnterRunning();

  // Whether the end of this member is the job's own fault, as far as can be seen now.
  bool LooksOwn(const Replica& replica);
  // Says how a member ended. Returns what it says.
  std::string TellEnd(const Replica& replica, bool own);

  // Some member is gone: the others can't go on without it.
  void StopAfterLoss();
  void Stop(absl::string_view reason, const std::string& message);
  void StopMembers();
  void Stopping();
  void Failure(const GroupEnd& end);
  // Tries again after a while: a node or the storage is to blame.
  void Fault(const GroupEnd& end);
  absl::Duration BackOff(int failures);
  void BackToPending(absl::string_view reason, std::string message);
  void Succeeded();
  void Cancelled();

  // ---- step_changes.cc. RUNNING and RESCALING only.

  bool CanChangeInPlace();

  // Members that can be in the next group, by rank.
  std::vector<PlanMember> Staying();
  static std::vector<Replica> ByRank(std::vector<Replica> replicas);

  const Replica* Find(const std::string& id);
  bool IsMember(const std::string& id);

  // Newcomers that live: those of the plan first, in its order.
  std::vector<PlanMember> LiveNewcomers();

  // As many of `members` as the job may have, lowest ranks first.
  std::vector<PlanMember> AllowedPart(std::vector<PlanMember> members);
  void HoldNewcomersBack();

  // Brings the job nearer to what the allocator decided.
  void Reconcile();

  // Says which newcomers have ended before they were members.
  void NoticeLostNewcomers();

  // Gives up newcomers whose processes have not come to run in time. Those that run may take as long as they
  // like to get ready: they hold nobody up.
  void StopLateNewcomers();

  // Replaces the plan by one for `target`.
  void Replan(const Target& target);
  void AddPlan(const std::vector<PlanMember>& members, bool committed);
  void GoOnWithPlan();
  void LaunchNewcomers();

  // Newcomers do not get the room that they are to have, perhaps because others wait for what this job holds: that is given
  // up once they have waited long enough.
  void MakeRoom();
  // Whether members that live are not in the plan.
  bool LeavesSome();
  // When members that the plan leaves out have to go, whether newcomers are ready or not, since their nodes go away.
  // InfiniteFuture: they may wait.
  absl::Time LeaveTime();
  // Has those that stay go on without the others at once; newcomers follow later. False: too few would stay.
  bool GoOnWithoutLeavers(const std::string& why);
  bool HoldsAnyOf(const std::vector<std::string>& nodes);
  void Offer();

  // ---- step_recovery.cc. RUNNING and RESCALING only.

  // Goes on with those that live, if members were lost from under them. False: all have to start again.
  bool Recover();

  // Counts an own failure that the job survives. False: it was one too many, and nothing has changed.
  bool CountFailure();
  void PlanRecovery(const std::vector<PlanMember>& next, const std::string& cause);

  // Whether the newest plan is what a replica can follow that says that the group with this number is broken:
  // it is newer, and without newcomers.
  bool IsAnswered(int64_t group);

  // Deals with reports that the group is broken. False: there are none that no plan answers yet.
  bool EndSuspicion();

  // When a member must have said that its group is broken, after another one did at `first`. It says so only
  // when it comes to its next collective.
  absl::Time AnswerDue(const Replica& replica, absl::Time first);

  // Gives up members that others wait for and that are silent, or do nothing. False: there are none.
  bool GiveUpAbsent();

  // Gives up whoever keeps all the others waiting, though all of them, this one too, say that they wait.
  // False: nobody does, or nobody can tell who.
  bool GiveUpStalled();
  // Of those that are least far (`last`) and of the group.
  const Replica* WhoGetsNothing(const std::vector<const Replica*>& last);
  const Replica* PeerOf(const Replica& replica);

  // What the last heartbeat of a replica means.
  enum class Pulse { kUnknown, kSilent, kWaits, kWorks, kStuck };
  Pulse PulseOf(const Replica& replica);
  // The longest of the members', since new ones do not know theirs yet. Zero: nobody does.
  absl::Duration Patience();

  // `absent` are stopped, `present` go on; `what` tells what is wrong with the absent ones.
  void GoOnWithout(const std::vector<const Replica*>& absent, const std::vector<PlanMember>& present,
                   absl::string_view what);
  std::string DescribePulse(const Replica& replica);

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

}  // namespace adaptdl::jobs

#endif  // ADAPTDL_LIBS_JOBS_STEP_H_
