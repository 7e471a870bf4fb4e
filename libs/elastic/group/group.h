// The group of replicas that this process is a member of: how it forms, is followed by another one, and is
// rebuilt when members are lost. This is the replica's side of docs/rescale.md.
//
//   any thread        OnPlan() ──▶ the newest plan        Abort() ends all waits
//   training thread   Form() ── Gather(), gradient exchanges ... ── Follow() at a step that all agree on
//                                   └─ one fails ──▶ a plan is awaited, the next group is built, and the
//                                      collective is redone, or its result taken from a member that has it
//
// Each collective of the job counts as one position, whichever group ran it. Members differ by one position
// at most, and the result of a collective is the same on all of them; that is what makes this work.
//
// An optimiser step is applied some time after its exchange is complete, and the program may gather something
// in between, or before the exchange. What becomes of such a step when members are lost there:
// - All have completed its exchange: it is taken, with what the lost members contributed.
// - Some have not, and nobody has applied it: it is void on all. Nobody completes a gather after an exchange
//   that somebody else does not have.
// - Nobody has: it is void as well, since what the lost members were to contribute is missing.
//
// Thread-safety: the training thread, except where a method says otherwise.

#ifndef ADAPTDL_LIBS_ELASTIC_GROUP_GROUP_H_
#define ADAPTDL_LIBS_ELASTIC_GROUP_GROUP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/comm/communicator.h"
#include "libs/comm/replaceable_communicator.h"
#include "libs/elastic/checkpoint/checkpoint_store.h"
#include "libs/elastic/control/control_plane.h"
#include "libs/elastic/group/connector.h"

namespace adaptdl::elastic {

class Group {
 public:
  // How members reach each other.
  struct Transport {
    // Where this process serves the rendezvous of groups of which it is rank 0. Empty: nowhere.
    std::string address;
    // Blocks until all members of the group are connected.
    std::function<absl::StatusOr<std::unique_ptr<comm::Communicator>>(const GroupMembership& group)> connect;
    // Whether that takes long: it is done ahead then, on a thread of its own, while the present group goes on.
    bool connects_ahead = false;
    // Ends connect() for groups with lower numbers, one that waits included, with ABORTED. From any thread.
    std::function<void(int64_t group)> refuse_below;
  };

  struct Options {
    // Longest wait for a plan once the group is broken.
    absl::Duration plan_timeout = absl::Minutes(1);
    // Monotonic seconds.
    std::function<double()> seconds;
  };

  // What the job does for its group. Called by the training thread.
  class States {
   public:
    virtual ~States() = default;
    // Collective, with state_transfer.h: sends all that a newcomer needs to go on where this replica is; and
    // takes that over, at a newcomer.
    virtual absl::Status SendAll(comm::Communicator& communicator) = 0;
    virtual absl::Status ReceiveAll(comm::Communicator& communicator, int source) = 0;
    // What the last optimiser step changed, for a member that did not complete its exchange.
    virtual void SaveStep(StateMap* states) = 0;
    virtual absl::Status LoadStep(const StateMap& states) = 0;
    // membership() has changed, and all members hold the same state. `keeps_step`: what the exchange of the
    // step in progress gave, which is complete on all, is still to be applied. Else it is dropped.
    virtual void OnNewGroup(bool keeps_step) = 0;
  };

  // None is owned. `states` may be called from Form() on.
  Group(ControlPlane* control, Transport transport, States* states, Options options);
  ~Group();

  // Takes part in the job's group. True: the job goes on, and its state was loaded. False: nobody has one
  // yet. CANCELLED, ABORTED: as ControlPlane::JoinGroup().
  absl::StatusOr<bool> Form();

  const GroupMembership& membership() const { return membership_; }
  int rank() const { return membership_.rank; }
  int size() const { return membership_.world_size; }
  // The same object for all groups. What is run on it directly counts as no position, and is not redone.
  comm::Communicator& communicator() { return communicator_; }

  // Collective: every member's value, in order of rank. When members are lost meanwhile, what comes back is
  // either from all of the old group or from the members of the next one, and the same on all. `in_step`:
  // whether the samples of an optimiser step were dealt out whose exchange has not begun. Nothing comes back
  // (an absent value) when the step in progress has become void.
  absl::StatusOr<std::optional<std::vector<std::string>>> Gather(const std::string& value,
                                                                 bool in_step = false);

  // The gradient exchange of an optimiser step is complete here; and its result is being applied, before
  // anything else is done with the group.
  void CompleteExchange();
  void ApplyExchange();

  // ... or has failed.
  enum class StepFate {
    kVoid,   // no member has taken the step: its samples are to be dealt out anew
    kTaken,  // others have, and States::LoadStep() has brought its results
  };
  absl::StatusOr<StepFate> RecoverStep(const absl::Status& failure);

  // How much longer than Options::plan_timeout a plan may take: a member that is in a long step is waited
  // for.
  void SetPatience(absl::Duration patience) { patience_ = patience; }

  // Whether a plan newer than this group is there, and nothing is left to wait for until it can be followed:
  // this member is connected to its group, cannot be, or leaves. From any thread.
  bool HoldsPlan() const;
  // Members of the newest plan's group, if it is newer than this one and keeps this replica; else 0. From any thread.
  int PlannedSize() const;
  // Number of the newest plan. 0: none.
  int64_t NewestPlan() const;
  // Whether the newest plan leaves this replica out.
  bool Leaves() const;
  // All members hold the plan of this number: goes over to it, or to a newer one. Nothing happens when the
  // group is not older. All members call it at the same position.
  absl::Status Follow(int64_t plan);

  // While there is somebody who must not be lost, a failure is final. Nests.
  void ForbidRecovery(bool forbid) { forbidden_ += forbid ? 1 : -1; }

  // How long the last change took, until the first step after it was done; once.
  std::optional<RescaleTimes> TakeTimes(double first_step_done);

  // --- From any thread

  void OnPlan(const GroupPlan& plan);
  // Whoever plans the groups has told this replica to stop, and plans it into none any more: once its group is broken,
  // it waits for no plan.
  void ExpectNoPlan();
  // Where this member stands in the group's collectives. Nothing: that can't be told.
  std::optional<Standing> standing();
  // Ends what waits, now and from now on, with ABORTED.
  void Abort(absl::string_view reason);

 private:
  // What the last collective was, for members that did not complete it.
  enum class Kind { kNone, kGather, kStep };
  // Where a member is when its group is left.
  enum class Place { kElsewhere, kGatherBeforeExchange, kExchange };

  // What a new group means to a member.
  struct Outcome {
    // The result of the collective that it was in was handed to it.
    bool taken = false;
    // The optimiser step that it was in is to be begun anew.
    bool step_void = false;
    // Nobody has a position.
    bool fresh = false;
  };

  bool MayRecover(const absl::Status& failure) const;
  // Builds the next group. `failure`: why, if this one is broken.
  absl::StatusOr<Outcome> Rebuild(absl::Status failure, Place place);
  absl::StatusOr<GroupPlan> AwaitPlan(int64_t newer_than);
  Connector::Connected Connect(const GroupMembership& next);
  // Makes `connected` the group's communicator.
  absl::Status Enter(const GroupMembership& next, Connector::Connected connected);
  // Brings all members to the same position. Adds to `outcome`.
  absl::Status Synchronize(Place place, Outcome* outcome);
  // To newcomers, everything.
  absl::Status HandOverAll(int source);
  // To members behind, the last collective's result. They keep what they have until they have all of it.
  absl::Status HandOver(int source, Kind kind, bool behind);

  ControlPlane* const control_;
  const Transport transport_;
  States* const states_;
  const Options options_;

  GroupMembership membership_;
  comm::ReplaceableCommunicator communicator_;
  // Collectives that this member has completed. Negative: it is new.
  int64_t position_ = -1;
  Kind last_kind_ = Kind::kNone;
  // Exchanges that are complete and were not applied.
  int unapplied_ = 0;
  std::vector<std::string> last_gather_;
  // Newest group that this member has tried to enter.
  int64_t tried_ = 0;
  int forbidden_ = 0;
  absl::Duration patience_;
  std::optional<RescaleTimes> times_;
  // When the state was the same on all members.
  double synchronized_at_ = 0;

  mutable Mutex mutex_;
  CondVar changed_;
  std::optional<GroupPlan> plan_ ABSL_GUARDED_BY(mutex_);
  double plan_time_ ABSL_GUARDED_BY(mutex_) = 0;
  // Number of membership_, for other threads.
  int64_t number_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);
  bool expects_plan_ ABSL_GUARDED_BY(mutex_) = true;

  Connector connector_;
};

// Of a process that is its group's only member for good.
Group::Transport TransportOfOne();

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_GROUP_GROUP_H_
