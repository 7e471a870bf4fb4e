#include "libs/elastic/job/job_core.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/say.h"
#include "libs/elastic/group/state_transfer.h"
#include "nlohmann/json.hpp"

namespace adaptdl::elastic {
namespace {

constexpr char kJobState[] = "adaptdl-job";
constexpr char kReplayState[] = "adaptdl-replay";
constexpr char kProfileState[] = "adaptdl-profile";
// Travels between replicas only.
constexpr char kStepState[] = "adaptdl-step";

constexpr absl::Duration kTick = absl::Milliseconds(100);

std::function<double()> ClockOf(const JobDependencies& dependencies) {
  return [host = dependencies.host.get()] { return host->Seconds(); };
}

TrainingWatch::Options WatchOptions(const JobDependencies& dependencies) {
  return {.least_patience = absl::ToDoubleSeconds(dependencies.environment.hang_timeout),
          .seconds = ClockOf(dependencies),
          .thread_clock = dependencies.host->ThreadClock()};
}

BatchDecider::Options BatchOptions(const JobDependencies& dependencies) {
  BatchDecider::Options options;
  options.period = dependencies.batch_decision_period;
  options.hints.period = absl::ToDoubleSeconds(dependencies.environment.hints_period);
  options.hints.first_after = std::min(options.hints.first_after, options.hints.period);
  return options;
}

CheckpointCoordinator::Options CheckpointOptions(const JobDependencies& dependencies,
                                                 std::function<void(const std::string&)> on_superseded) {
  const Environment& environment = dependencies.environment;
  return {.folder = environment.checkpoint_path,
          .start_folder = environment.start_path,
          .keep = environment.checkpoint_keep,
          .period = environment.checkpoint_period,
          .period_steps = environment.checkpoint_period_steps,
          .before_step = dependencies.before_checkpoint_step,
          .seconds = ClockOf(dependencies),
          .on_superseded = std::move(on_superseded)};
}

}  // namespace

// --- Life ---

absl::StatusOr<std::unique_ptr<JobCore>> JobCore::Create(JobDependencies dependencies) {
  std::unique_ptr<JobCore> core(new JobCore(std::move(dependencies)));
  ControlPlane& control = *core->dependencies_.control;
  // While those that train go on.
  if (control.plans_groups()) core->states_.ReserveMemory();
  const absl::StatusOr<bool> continues = core->team_.group().Form();
  if (!continues.ok()) return continues.status();
  core->SetUpRank();
  if (!*continues) {
    if (absl::Status status = core->Restore(); !status.ok()) return status;
  }
  core->checkpoints_.Start();
  control.Start(core.get());
  core->background_.Start(kTick, [raw = core.get()] { raw->Tick(); });
  return core;
}

JobCore::JobCore(JobDependencies dependencies)
    : dependencies_(std::move(dependencies)),
      ending_(dependencies_.host.get(), dependencies_.control.get()),
      watch_(WatchOptions(dependencies_)),
      meter_(ClockOf(dependencies_)),
      batches_(BatchOptions(dependencies_), &meter_.profile(), dependencies_.control.get()),
      states_(dependencies_.expected),
      checkpoints_(CheckpointOptions(dependencies_, [this](const std::string& reason) { OnFenced(reason); }),
                   &progress_, &watch_, dependencies_.control.get()),
      team_(dependencies_.control.get(), dependencies_.transport, this,
            {.plan_timeout = dependencies_.plan_timeout, .seconds = ClockOf(dependencies_)}, &watch_,
            &ending_),
      loop_({.control = dependencies_.control.get(),
             .ending = &ending_,
             .watch = &watch_,
             .replay = &replay_,
             .progress = &progress_,
             .metrics = &metrics_,
             .meter = &meter_,
             .batches = &batches_,
             .checkpoints = &checkpoints_,
             .team = &team_},
            {.stop_timeout = dependencies_.stop_timeout,
             .seconds = ClockOf(dependencies_),
             .sync_states = [this] { states_.Sync(); },
             .collect_states = [this](StateMap* states) { states_.Collect(OwnStates(), states); }}) {
  ending_.SetLastWork([this] { FinishWriting(); });
}

JobCore::~JobCore() {
  if (dependencies_.on_end) dependencies_.on_end();
  background_.Stop();
  // Finishes the last checkpoint, while the other replicas wait at the barrier; unless the control plane says
  // that this one is not wanted any more.
  checkpoints_.Close();
  // All replicas are past their last step. One that leaves early may break the others' barrier, which is no
  // loss.
  if (loop_.training_done()) (void)team_.communicator().Barrier();
  dependencies_.control->Shutdown();
}

void JobCore::FinishWriting() {
  if (!absl::IsDeadlineExceeded(checkpoints_.AwaitWritten(dependencies_.write_timeout))) return;
  Say(Severity::kWarning, "the last checkpoint was not written in time, the one before stays");
}

void JobCore::Tick() {
  batches_.Tick(Seconds());
  watch_.Tick();
  // A peer that is gone without a trace must not keep this replica from ending in time.
  if (loop_.stop().TakeOverdue(watch_.waiting_since())) {
    team_.group().Abort("the other replicas did not agree to stop in time");
  }
}

// --- What the control plane and the group say ---

void JobCore::OnStopCommand(const std::string& reason) {
  RequestStop(reason);
  team_.group().ExpectNoPlan();
}

void JobCore::OnFenced(const std::string& reason) {
  Say(Severity::kWarning, absl::StrCat("this replica is not wanted any more: ", reason));
  ending_.Fence();
  checkpoints_.Cancel();
  team_.group().Abort(absl::StrCat("fenced off: ", reason));
}

Activity JobCore::CurrentActivity() {
  return watch_.CurrentActivity([this] { return team_.group().standing(); });
}

void JobCore::SetUpRank() {
  SetSpeaker(team_.membership().rank);
  batches_.SetMembership(team_.membership());
  checkpoints_.SetMembership(team_.membership());
}

void JobCore::OnNewGroup(bool keeps_step) {
  SetUpRank();
  // What the loop agreed on is for the new members to say.
  loop_.signal().Forget();
  progress_.RestartMeans();
  team_.TellGroupChange(keeps_step);
  if (!team_.leads()) return;
  const GroupMembership& now = team_.membership();
  Say(Severity::kInfo, absl::StrCat("goes on as group ", now.group, " with ", now.world_size,
                                    now.world_size == 1 ? " replica" : " replicas"));
}

// --- States ---

absl::Status JobCore::Restore() {
  absl::StatusOr<StateMap> states = checkpoints_.LoadNewest();
  if (!states.ok()) return states.status();
  absl::Status status = BroadcastStates(team_.communicator(), 0, /*wanted=*/true, &*states);
  if (!status.ok()) return status;
  // There is no way back to a job that begins.
  if (states_.has_others_state() && states->empty()) {
    return absl::UnavailableError("the replicas that trained are lost, and there is no checkpoint");
  }
  states_.Restore(*std::move(states));
  return LoadOwnStates();
}

absl::Status JobCore::SendAll(comm::Communicator& communicator) {
  return states_.Send(communicator, OwnStates());
}

absl::Status JobCore::ReceiveAll(comm::Communicator& communicator, int source) {
  absl::Status status = states_.Receive(communicator, source);
  return status.ok() ? LoadOwnStates() : status;
}

StateMap JobCore::OwnStates() {
  nlohmann::json job;
  progress_.Save(&job);
  metrics_.Save(&job);
  checkpoints_.SaveTo(&job);
  batches_.Save(&job);
  return {{kJobState, job.dump()}, {kReplayState, replay_.Save()}, {kProfileState, meter_.profile().Save()}};
}

absl::Status JobCore::LoadOwnStates() {
  if (!states_.restored()) return absl::OkStatus();
  if (absl::Status status = replay_.Load(states_.Restored(kReplayState)); !status.ok()) return status;
  absl::Status status = meter_.profile().Load(states_.Restored(kProfileState));
  if (!status.ok()) return status;
  const nlohmann::json job =
      nlohmann::json::parse(states_.Restored(kJobState), nullptr, /*allow_exceptions=*/false);
  if (!job.is_object()) return absl::DataLossError("the saved job state cannot be read");
  progress_.Load(job);
  metrics_.Load(job);
  metrics_.SetSteps(progress_.optimizer_steps());
  checkpoints_.LoadFrom(job);
  batches_.Load(job);
  return absl::OkStatus();
}

void JobCore::SaveStep(StateMap* states) {
  states_.SaveStep(states);
  nlohmann::json step;
  progress_.SaveStep(&step);
  step["signals"] = loop_.agreement().last();
  (*states)[kStepState] = step.dump();
}

absl::Status JobCore::LoadStep(const StateMap& states) {
  if (absl::Status status = states_.LoadStep(states); !status.ok()) return status;
  const nlohmann::json step = nlohmann::json::parse(states.at(kStepState));
  progress_.LoadStep(step);
  metrics_.SetSteps(progress_.optimizer_steps());
  team_.step().MarkTaken();
  loop_.AgreeOn(step.at("signals").get<std::vector<double>>());
  return absl::OkStatus();
}

}  // namespace adaptdl::elastic
