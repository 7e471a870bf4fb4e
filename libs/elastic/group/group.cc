#include "libs/elastic/group/group.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "libs/base/clock.h"
#include "libs/base/say.h"
#include "libs/comm/in_process_communicator.h"
#include "libs/elastic/group/state_transfer.h"
#include "nlohmann/json.hpp"

namespace adaptdl::elastic {
namespace {

// Whether a collective or a connection failed because of other members.
bool IsLoss(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsAborted(status);
}

// Names that sort in order of rank.
std::string NameOf(size_t rank) { return absl::StrFormat("%09d", rank); }

}  // namespace

Group::Group(ControlPlane* control, Transport transport, States* states, Options options)
    : control_(control),
      transport_(std::move(transport)),
      states_(states),
      options_(std::move(options)),
      communicator_(std::move(comm::CreateInProcessGroup(1).front())),
      connector_(transport_.connect) {}

Group::~Group() {
  if (!connector_.idle()) transport_.refuse_below(INT64_MAX);
}

// --- Forming and following ---

absl::StatusOr<bool> Group::Form() {
  const absl::Time deadline = SteadyNow() + options_.plan_timeout;
  for (;;) {
    const absl::StatusOr<GroupMembership> joined = control_->JoinGroup(transport_.address);
    if (!joined.ok()) return joined.status();
    Outcome outcome;
    absl::Status status = Enter(*joined, transport_.connect(*joined));
    if (status.ok()) status = Synchronize(Place::kElsewhere, &outcome);
    if (status.ok()) {
      MutexLock lock(&mutex_);
      number_ = joined->group;
      return !outcome.fresh;
    }
    // Another group may have been planned meanwhile, such as one without a newcomer that is lost.
    if (!control_->plans_groups() || !IsLoss(status) || SteadyNow() > deadline) return status;
    Say(Severity::kWarning,
        absl::StrCat("group ", joined->group, " could not be connected: ", status.message()));
    // It may be offered again before the one that replaces it.
    MutexLock lock(&mutex_);
    changed_.WaitFor(&mutex_, absl::Milliseconds(50));
  }
}

absl::Status Group::Follow(int64_t plan) {
  if (membership_.group >= plan) return absl::OkStatus();
  return Rebuild(absl::OkStatus(), Place::kElsewhere).status();
}

absl::StatusOr<Group::Outcome> Group::Rebuild(absl::Status failure, Place place) {
  Outcome outcome;
  const double start = options_.seconds();
  times_ = RescaleTimes();
  tried_ = std::max(tried_, membership_.group);
  const absl::Status loss = failure;
  if (!loss.ok()) communicator_.Abort(loss.message());
  for (;;) {
    if (!failure.ok()) control_->ReportBroken(tried_, std::string(failure.message()));
    const absl::StatusOr<GroupPlan> plan = AwaitPlan(tried_);
    if (!plan.ok()) return failure.ok() ? plan.status() : failure;
    tried_ = plan->next.group;
    if (plan->leaves()) return absl::CancelledError(plan->reason);
    // A newcomer finds its place only where the program agreed to change over.
    if (!failure.ok() && plan->next.newcomers > 0) continue;
    const absl::Status connected = Enter(plan->next, Connect(plan->next));
    const double built = options_.seconds();
    failure = connected.ok() ? Synchronize(place, &outcome) : connected;
    if (failure.ok()) {
      times_->group = plan->next.group;
      times_->rebuild = built - start;
      synchronized_at_ = options_.seconds();
      times_->synchronize = synchronized_at_ - built;
      {
        MutexLock lock(&mutex_);
        number_ = membership_.group;
        if (plan_time_ > 0 && plan_time_ < start) times_->agree = start - plan_time_;
      }
      control_->EnterGroup(membership_);
      if (outcome.step_void) unapplied_ = 0;
      if (!loss.ok()) Say(Severity::kNotice, absl::StrCat("a replica was lost: ", loss.message()));
      states_->OnNewGroup(/*keeps_step=*/unapplied_ > 0);
      return outcome;
    }
    if (!IsLoss(failure)) return failure;
  }
}

absl::StatusOr<GroupPlan> Group::AwaitPlan(int64_t newer_than) {
  const absl::Time deadline = SteadyNow() + options_.plan_timeout + patience_;
  MutexLock lock(&mutex_);
  for (;;) {
    if (!aborted_.ok()) return aborted_;
    if (plan_ && plan_->next.group > newer_than) return *plan_;
    if (!expects_plan_) return absl::AbortedError("this replica is to stop, and no group follows for it");
    const absl::Duration left = deadline - SteadyNow();
    if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError("no plan for another group came");
    changed_.WaitFor(&mutex_, left);
  }
}

Connector::Connected Group::Connect(const GroupMembership& next) {
  return transport_.connects_ahead ? connector_.Take(next) : transport_.connect(next);
}

absl::Status Group::Enter(const GroupMembership& next, Connector::Connected connected) {
  if (!connected.ok()) return connected.status();
  communicator_.Replace(*std::move(connected));
  membership_ = next;
  MutexLock lock(&mutex_);
  if (!aborted_.ok()) communicator_.Abort(aborted_.message());
  return aborted_;
}

absl::Status Group::Synchronize(Place place, Outcome* outcome) {
  // Not Gather(): nobody has a place in the program that this could count from.
  const absl::StatusOr<std::vector<std::string>> all = communicator_.AllGather(
      nlohmann::json({position_, static_cast<int>(last_kind_), unapplied_, static_cast<int>(place)}).dump());
  if (!all.ok()) return all.status();
  struct Member {
    int64_t position = -1;
    Kind kind = Kind::kNone;
    int unapplied = 0;
    Place place = Place::kElsewhere;
  };
  std::vector<Member> members;
  for (const std::string& text : *all) {
    const nlohmann::json member = nlohmann::json::parse(text);
    members.push_back({member.at(0), static_cast<Kind>(member.at(1).get<int>()), member.at(2),
                       static_cast<Place>(member.at(3).get<int>())});
  }
  // Of those that are furthest, one that has applied the last step if there is one.
  const auto source = std::max_element(members.begin(), members.end(), [](const Member& a, const Member& b) {
    return std::pair(a.position, -a.unapplied) < std::pair(b.position, -b.unapplied);
  });
  const int64_t furthest = source->position;
  const auto source_rank = static_cast<int>(source - members.begin());
  outcome->fresh = furthest < 0;
  const bool any_behind = std::any_of(members.begin(), members.end(), [&](const Member& member) {
    return member.position >= 0 && member.position < furthest;
  });
  const bool any_new = furthest >= 0 && std::any_of(members.begin(), members.end(),
                                                    [](const Member& member) { return member.position < 0; });
  // It was given up and the others went on: it has no way back. They are told by its end.
  if (position_ >= 0 && position_ < furthest - 1) {
    return absl::OutOfRangeError(
        absl::StrCat("the job is at position ", furthest, ", this replica at ", position_));
  }
  const bool behind = position_ >= 0 && position_ < furthest;
  // The exchange that those behind have failed in was applied by nobody: it never was.
  const bool undone = any_behind && source->kind == Kind::kStep && source->unapplied > 0;
  if (any_behind && !undone) {
    const Kind kind = source->kind;
    if (absl::Status status = HandOver(source_rank, kind, behind); !status.ok()) return status;
    outcome->taken = outcome->taken || behind;
  }
  const auto is_past = [&](const Member& member) {
    return member.place == Place::kElsewhere && member.position == furthest;
  };
  switch (place) {
    case Place::kElsewhere:
      outcome->step_void = undone && unapplied_ > 0;
      break;
    case Place::kGatherBeforeExchange:
      // Unless somebody has gone on from this gather without an exchange: there is none in this loop.
      outcome->step_void = !(outcome->taken && std::any_of(members.begin(), members.end(), is_past));
      break;
    case Place::kExchange:
      outcome->step_void = !outcome->taken;
      break;
  }
  if (any_new) {
    if (absl::Status status = HandOverAll(source_rank); !status.ok()) return status;
  }
  // Nobody goes on before all are where they should be.
  if (absl::Status status = communicator_.Barrier(); !status.ok()) return status;
  position_ = std::max<int64_t>(furthest, 0);
  return absl::OkStatus();
}

absl::Status Group::HandOverAll(int source) {
  if (rank() == source) return states_->SendAll(communicator_);
  if (position_ < 0) return states_->ReceiveAll(communicator_, source);
  return ReceiveStates(communicator_, source, nullptr);
}

absl::Status Group::HandOver(int source, Kind kind, bool behind) {
  if (kind == Kind::kStep) {
    StateMap states;
    if (rank() == source) states_->SaveStep(&states);
    absl::Status status = BroadcastStates(communicator_, source, behind, &states);
    if (status.ok() && behind) status = states_->LoadStep(states);
    if (!status.ok() || !behind) return status;
    unapplied_ = 0;
  } else {
    StateMap states;
    if (rank() == source) {
      for (size_t i = 0; i < last_gather_.size(); ++i) states[NameOf(i)] = last_gather_[i];
    }
    if (absl::Status status = BroadcastStates(communicator_, source, behind, &states); !status.ok()) {
      return status;
    }
    if (!behind) return absl::OkStatus();
    last_gather_.clear();
    for (auto& [name, value] : states) last_gather_.push_back(std::move(value));
  }
  // Should this group break at once, it is this member that may hand it over.
  last_kind_ = kind;
  ++position_;
  return absl::OkStatus();
}

// --- Collectives ---

bool Group::MayRecover(const absl::Status& failure) const {
  if (!IsLoss(failure) || !control_->plans_groups() || forbidden_ > 0) return false;
  MutexLock lock(&mutex_);
  return aborted_.ok();
}

absl::StatusOr<std::optional<std::vector<std::string>>> Group::Gather(const std::string& value,
                                                                      bool in_step) {
  for (;;) {
    absl::StatusOr<std::vector<std::string>> values = communicator_.AllGather(value);
    if (values.ok()) {
      ++position_;
      last_kind_ = Kind::kGather;
      last_gather_ = *values;
      return *std::move(values);
    }
    if (!MayRecover(values.status())) return values.status();
    const bool before_exchange = in_step && unapplied_ == 0;
    const absl::StatusOr<Outcome> outcome =
        Rebuild(values.status(), before_exchange ? Place::kGatherBeforeExchange : Place::kElsewhere);
    if (!outcome.ok()) return outcome.status();
    if (outcome->step_void) return std::nullopt;
    if (outcome->taken) return last_gather_;
  }
}

void Group::CompleteExchange() {
  ++position_;
  ++unapplied_;
  last_kind_ = Kind::kStep;
  last_gather_.clear();
}

void Group::ApplyExchange() { unapplied_ = std::max(unapplied_ - 1, 0); }

absl::StatusOr<Group::StepFate> Group::RecoverStep(const absl::Status& failure) {
  if (!MayRecover(failure)) return failure;
  const absl::StatusOr<Outcome> outcome = Rebuild(failure, Place::kExchange);
  if (!outcome.ok()) return outcome.status();
  return outcome->taken ? StepFate::kTaken : StepFate::kVoid;
}

// --- Plans ---

bool Group::HoldsPlan() const {
  MutexLock lock(&mutex_);
  if (!plan_ || plan_->next.group <= number_) return false;
  return plan_->leaves() || !transport_.connects_ahead || connector_.IsDone(plan_->next.group);
}

int Group::PlannedSize() const {
  MutexLock lock(&mutex_);
  return plan_ && plan_->next.group > number_ && !plan_->leaves() ? plan_->next.world_size : 0;
}

int64_t Group::NewestPlan() const {
  MutexLock lock(&mutex_);
  return plan_ ? plan_->next.group : 0;
}

bool Group::Leaves() const {
  MutexLock lock(&mutex_);
  return plan_ && plan_->next.group > number_ && plan_->leaves();
}

std::optional<RescaleTimes> Group::TakeTimes(double first_step_done) {
  if (!times_ || times_->group != membership_.group) return std::nullopt;
  times_->first_step = first_step_done - synchronized_at_;
  return std::exchange(times_, std::nullopt);
}

void Group::OnPlan(const GroupPlan& plan) {
  {
    MutexLock lock(&mutex_);
    if (plan_ && plan_->next.group >= plan.next.group) return;
    // Whoever waits for a lost member waits in vain. Before the plan is known here: the group that follows it
    // is not meant.
    if (plan.broken && plan.next.group > number_) {
      communicator_.Abort(absl::StrCat("this group is over: ", plan.reason));
    }
    plan_ = plan;
    plan_time_ = options_.seconds();
    changed_.SignalAll();
  }
  transport_.refuse_below(plan.next.group);
  if (transport_.connects_ahead && !plan.leaves()) connector_.Begin(plan.next);
}

void Group::ExpectNoPlan() {
  MutexLock lock(&mutex_);
  expects_plan_ = false;
  changed_.SignalAll();
}

std::optional<Standing> Group::standing() {
  const std::optional<comm::Standing> in_group = communicator_.standing();
  if (!in_group.has_value()) return std::nullopt;
  Standing standing;
  {
    MutexLock lock(&mutex_);
    standing.group = number_;
  }
  standing.collective = static_cast<int64_t>(in_group->collective);
  standing.step = in_group->step;
  standing.peer = in_group->peer;
  standing.stalled = absl::ToDoubleSeconds(in_group->stalled);
  return standing;
}

void Group::Abort(absl::string_view reason) {
  {
    MutexLock lock(&mutex_);
    if (aborted_.ok()) aborted_ = absl::AbortedError(reason);
    changed_.SignalAll();
  }
  transport_.refuse_below(INT64_MAX);
  communicator_.Abort(reason);
}

Group::Transport TransportOfOne() {
  Group::Transport transport;
  transport.connect = [](const GroupMembership&) { return std::move(comm::CreateInProcessGroup(1).front()); };
  transport.refuse_below = [](int64_t) {};
  return transport;
}

}  // namespace adaptdl::elastic
