#include "libs/elastic/group.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "libs/comm/in_process_communicator.h"
#include "libs/elastic/state_transfer.h"
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
      communicator_(std::move(comm::CreateInProcessGroup(1).front())) {}

// --- Forming and following ---

absl::StatusOr<bool> Group::Form() {
  const absl::Time deadline = absl::Now() + options_.plan_timeout;
  for (;;) {
    const absl::StatusOr<GroupMembership> joined = control_->JoinGroup(transport_.address);
    if (!joined.ok()) return joined.status();
    bool taken = false;
    bool fresh = false;
    absl::Status status = Connect(*joined);
    if (status.ok()) status = Synchronize(&taken, &fresh);
    if (status.ok()) {
      MutexLock lock(&mutex_);
      number_ = joined->group;
      return !fresh;
    }
    // Another group may have been planned meanwhile, such as one without a newcomer that is lost.
    if (!control_->plans_groups() || !IsLoss(status) || absl::Now() > deadline) return status;
    std::fprintf(stderr, "adaptdl: group %lld could not be connected: %s\n",
                 static_cast<long long>(joined->group), std::string(status.message()).c_str());
    // It may be offered again before the one that replaces it.
    MutexLock lock(&mutex_);
    changed_.WaitFor(&mutex_, absl::Milliseconds(50));
  }
}

absl::Status Group::Follow(int64_t plan) {
  if (membership_.group >= plan) return absl::OkStatus();
  return Rebuild(absl::OkStatus()).status();
}

absl::StatusOr<bool> Group::Rebuild(absl::Status failure) {
  bool taken = false;
  const double start = options_.seconds();
  times_ = RescaleTimes();
  tried_ = std::max(tried_, membership_.group);
  if (!failure.ok()) communicator_.Abort(failure.message());
  for (;;) {
    if (!failure.ok()) control_->ReportBroken(tried_, std::string(failure.message()));
    const absl::StatusOr<GroupPlan> plan = AwaitPlan(tried_);
    if (!plan.ok()) return failure.ok() ? plan.status() : failure;
    tried_ = plan->next.group;
    if (plan->leaves()) return absl::CancelledError(plan->reason);
    // A newcomer finds its place only where the program agreed to change over.
    if (!failure.ok() && plan->next.newcomers > 0) continue;
    const absl::Status connected = Connect(plan->next);
    const double built = options_.seconds();
    bool fresh = false;
    failure = connected.ok() ? Synchronize(&taken, &fresh) : connected;
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
      states_->OnNewGroup();
      return taken;
    }
    if (!IsLoss(failure)) return failure;
  }
}

absl::StatusOr<GroupPlan> Group::AwaitPlan(int64_t newer_than) {
  const absl::Time deadline = absl::Now() + options_.plan_timeout + patience_;
  MutexLock lock(&mutex_);
  for (;;) {
    if (!aborted_.ok()) return aborted_;
    if (plan_ && plan_->next.group > newer_than) return *plan_;
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError("no plan for another group came");
    changed_.WaitFor(&mutex_, left);
  }
}

absl::Status Group::Connect(const GroupMembership& next) {
  absl::StatusOr<std::unique_ptr<comm::Communicator>> connected = transport_.connect(next);
  if (!connected.ok()) return connected.status();
  communicator_.Replace(*std::move(connected));
  membership_ = next;
  MutexLock lock(&mutex_);
  if (!aborted_.ok()) communicator_.Abort(aborted_.message());
  return aborted_;
}

absl::Status Group::Synchronize(bool* taken, bool* fresh) {
  // Not Gather(): nobody has a place in the program that this could count from.
  const absl::StatusOr<std::vector<std::string>> all =
      communicator_.AllGather(nlohmann::json({position_, static_cast<int>(last_kind_)}).dump());
  if (!all.ok()) return all.status();
  int64_t furthest = -1;
  int source = 0;
  Kind kind = Kind::kNone;
  std::vector<int64_t> positions;
  for (size_t rank = 0; rank < all->size(); ++rank) {
    const nlohmann::json position = nlohmann::json::parse((*all)[rank]);
    positions.push_back(position.at(0));
    if (positions.back() <= furthest) continue;
    furthest = positions.back();
    source = static_cast<int>(rank);
    kind = static_cast<Kind>(position.at(1).get<int>());
  }
  *fresh = furthest < 0;
  bool any_behind = false;
  bool any_new = false;
  for (const int64_t position : positions) {
    any_behind = any_behind || (position >= 0 && position < furthest);
    any_new = any_new || (position < 0 && furthest >= 0);
  }
  // It was given up and the others went on: it has no way back. They are told by its end.
  if (position_ >= 0 && position_ < furthest - 1) {
    return absl::OutOfRangeError(
        absl::StrCat("the job is at position ", furthest, ", this replica at ", position_));
  }
  const bool behind = position_ >= 0 && position_ < furthest;
  if (any_behind) {
    if (absl::Status status = HandOver(source, kind, behind); !status.ok()) return status;
    *taken = *taken || behind;
  }
  if (any_new) {
    if (absl::Status status = HandOverAll(source); !status.ok()) return status;
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

absl::StatusOr<std::vector<std::string>> Group::Gather(const std::string& value) {
  for (;;) {
    absl::StatusOr<std::vector<std::string>> values = communicator_.AllGather(value);
    if (values.ok()) {
      ++position_;
      last_kind_ = Kind::kGather;
      last_gather_ = *values;
      return values;
    }
    if (!MayRecover(values.status())) return values.status();
    const absl::StatusOr<bool> taken = Rebuild(values.status());
    if (!taken.ok()) return taken.status();
    if (*taken) return last_gather_;
  }
}

void Group::CompleteStep() {
  ++position_;
  last_kind_ = Kind::kStep;
  last_gather_.clear();
}

absl::StatusOr<Group::StepFate> Group::RecoverStep(const absl::Status& failure) {
  if (!MayRecover(failure)) return failure;
  const absl::StatusOr<bool> taken = Rebuild(failure);
  if (!taken.ok()) return taken.status();
  return *taken ? StepFate::kTaken : StepFate::kVoid;
}

// --- Plans ---

bool Group::HoldsPlan() const {
  MutexLock lock(&mutex_);
  return plan_ && plan_->next.group > number_;
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
