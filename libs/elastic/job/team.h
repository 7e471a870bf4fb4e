// The replicas of the job, as its training thread works with them: collectives that go on over lost members,
// or end the process where that is not possible, and what becomes of the step in progress then.
//
// Thread-safety: the training thread, except where a method says otherwise.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_TEAM_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_TEAM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "libs/comm/communicator.h"
#include "libs/elastic/control/control_plane.h"
#include "libs/elastic/group/group.h"
#include "libs/elastic/job/ending.h"
#include "libs/elastic/job/step_agreement.h"
#include "libs/elastic/job/step_in_progress.h"
#include "libs/elastic/job/training_watch.h"

namespace adaptdl::elastic {

class Team final : public SignalSource {
 public:
  // Nothing is owned. `states` is called from Group::Form() on, and is to call TellGroupChange().
  Team(ControlPlane* control, Group::Transport transport, Group::States* states, Group::Options options,
       TrainingWatch* watch, Ending* ending)
      : group_(control, std::move(transport), states, std::move(options)), watch_(watch), ending_(ending) {}

  // What is there to form it, and some of its methods are for any thread.
  Group& group() { return group_; }
  // May change with each step (OnGroupChange()).
  const GroupMembership& membership() const { return group_.membership(); }
  bool leads() const { return group_.rank() == 0; }
  // For what travels with each step. What fails on it is not redone, other than Gather().
  comm::Communicator& communicator() { return group_.communicator(); }
  StepInProgress& step() { return step_; }

  // Collective: as Group::Gather(), but ends the process when it fails for good. Empty when the step in
  // progress is void, or has become so: the replicas do not run this part of the loop's body alike then.
  std::vector<std::string> Gather(const std::string& value);
  // The sum over all replicas, by Gather().
  int64_t SumOf(int64_t value);

  // The exchange of the step's gradients has failed, for `failure`: returns once the group is rebuilt, with
  // what became of the step. If it was taken elsewhere, all states, and what was agreed on, are as after it.
  Group::StepFate RecoverStep(const absl::Status& failure);

  // Goes over to this plan, or a newer one, that all hold; at the same position on all.
  void Follow(int64_t plan);

  // `handler` is called when the group has changed, until it is set to null; `owner` is a key.
  // `keeps_step`: as in Group::States::OnNewGroup().
  using GroupHandler = std::function<void(bool keeps_step)>;
  void OnGroupChange(const void* owner, GroupHandler handler);
  void TellGroupChange(bool keeps_step);

  // Before this replica says that it holds a plan for a group of `size`, all of these have to be ready for that; they
  // are asked in each step. Until set to null; `owner` is a key.
  using Readiness = std::function<bool(int size)>;
  void OnPlanned(const void* owner, Readiness is_ready);

  // Whether all have said, with the last step, that they hold a plan for the next group, if not the same one.
  // Once.
  bool TakeAllHoldPlans() { return std::exchange(all_hold_plans_, false); }

  size_t num_signals() const override { return 1; }
  void Offer(bool /*in_step*/, absl::Span<double> signals) override {
    signals[0] = group_.HoldsPlan() && IsReadyForPlan() ? 1 : 0;
  }
  void OnAgreed(absl::Span<const double> sums, int members) override {
    all_hold_plans_ = sums[0] > 0 && static_cast<int>(sums[0]) == members;
  }

 private:
  bool IsReadyForPlan() const;

  Group group_;
  TrainingWatch* const watch_;
  Ending* const ending_;
  StepInProgress step_;
  std::map<const void*, GroupHandler> handlers_;
  std::map<const void*, Readiness> readiness_;
  bool all_hold_plans_ = false;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_TEAM_H_
