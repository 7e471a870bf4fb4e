#include "libs/elastic/job/step_loop.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "adaptdl/job.h"
#include "libs/base/say.h"

namespace adaptdl::elastic {
namespace {

// Numbers as a text that keeps every bit.
std::string ToText(absl::Span<const double> numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double)};
}

void AddText(const std::string& text, std::vector<double>* sums) {
  std::vector<double> numbers(text.size() / sizeof(double));
  std::memcpy(numbers.data(), text.data(), numbers.size() * sizeof(double));
  sums->resize(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) (*sums)[i] += numbers[i];
}

}  // namespace

StepLoop::StepLoop(const Parts& parts, const Options& options)
    : parts_(parts),
      options_(options),
      stop_(options.stop_timeout, options.seconds),
      agreement_({&stop_, parts.checkpoints, &news_, parts.batches, &signal_, parts.team}) {}

// --- Micro-batches and steps ---

void StepLoop::BeginMicroBatch() {
  step().Begin();
  parts_.watch->NoteTrainingThread();
  parts_.meter->BeginMicroBatch();
}

void StepLoop::FinishStep(const StepSummary& summary) {
  for (StepSums* sums : sums_) sums->KeepStep();
  step().End();
  // A loop without optimiser steps, such as an evaluation, is no work that counts.
  if (step().taken()) {
    Measure(summary);
    const auto times = parts_.team->group().TakeTimes(options_.seconds());
    if (times) parts_.control->ReportRescale(*times);
  }
  parts_.meter->DropTimes();
  ReportProgress();
  StepBoundary(/*may_rescale=*/true);
  // From here on, so that reading the next batch is part of the next step's time, and a checkpoint of none.
  parts_.meter->Resume();
}

void StepLoop::Measure(const StepSummary& summary) {
  const GroupMembership& membership = parts_.team->membership();
  parts_.meter->FinishStep(
      {.key = {membership.num_nodes, membership.world_size, summary.atomic_batch_size, membership.gpu_types},
       .samples = summary.samples,
       .typical = summary.typical});
  parts_.batches->OnStep(summary);
  parts_.progress->SetLoop(summary);
  for (const StepMeter::StepTime& time : parts_.meter->TakeTimes()) {
    if (!time.first) {
      parts_.watch->AddStep(time.seconds);
      parts_.team->group().SetPatience(absl::Seconds(parts_.watch->patience()));
    }
    if (!time.profiled) continue;
    parts_.progress->AddStep(static_cast<double>(time.samples) / time.seconds,
                             {time.seconds - time.sync - time.data, time.sync, time.data});
  }
}

void StepLoop::EndSteps() {
  for (StepSums* sums : sums_) sums->KeepStep();
  step().EndLoop();
  parts_.meter->DropTimes();
  parts_.meter->Pause();
}

void StepLoop::AgreeOn(absl::Span<const double> sums) {
  agreement_.AgreeOn(sums);
  step().MarkExchanged();
}

void StepLoop::OnOptimizerStep(double sync_time, double gain) {
  if (step().MarkTaken()) {
    parts_.progress->CountStep(gain);
    parts_.metrics->SetSteps(parts_.progress->optimizer_steps());
  }
  parts_.meter->AddSync(sync_time);
}

void StepLoop::RestartStep() {
  step().Restart();
  parts_.meter->DropTimes();
  parts_.meter->Resume();
  for (StepSums* sums : sums_) sums->DropStep();
}

// --- The end of a step ---

void StepLoop::StepBoundary(bool may_rescale) {
  step().Close();
  parts_.meter->ClearSync();
  parts_.ending->ExitIfFenced();
  if (step().is_void()) return;
  if (!step().exchanged()) AgreeByGather();
  if (step().is_void()) return;
  step().ClearExchange();
  if (news_.due()) {
    news_.Exchange([this](const std::string& own) { return parts_.team->Gather(own); });
  }
  const bool all_hold_plans = parts_.team->TakeAllHoldPlans();
  const bool merged = may_rescale && !stop_.agreed() && all_hold_plans && FollowPlan();
  const bool stop = stop_.agreed();
  if (!stop && !parts_.checkpoints->agreed()) return;
  stop_.Settle();
  parts_.checkpoints->Settle();
  // A newcomer has gone on from here, and would not take part.
  if (!merged) MergeStates();
  SaveCheckpoint();
  if (stop) parts_.ending->Exit(kExitStopped);
}

void StepLoop::AgreeByGather() {
  std::vector<double> sums;
  const std::vector<std::string> all = parts_.team->Gather(ToText(agreement_.Local(/*in_step=*/false)));
  if (step().is_void()) return;
  for (const std::string& text : all) AddText(text, &sums);
  AgreeOn(sums);
}

// All replicas hold a plan, if not the same one.
bool StepLoop::FollowPlan() {
  Team& team = *parts_.team;
  const std::vector<std::string> plans = team.Gather(absl::StrCat(team.group().NewestPlan()));
  if (plans.empty()) return false;
  if (std::any_of(plans.begin(), plans.end(), [&](const auto& plan) { return plan != plans.front(); }))
    return false;
  const int64_t plan = std::strtoll(plans.front().c_str(), nullptr, 10);
  MergeStates();
  // What a leaver alone knows has arrived everywhere before it leaves.
  team.Gather("");
  // Another group may have come about meanwhile, because members were lost.
  if (plan <= team.membership().group) return true;
  if (team.group().Leaves()) {
    Say(Severity::kNotice, "leaves the job, which goes on without this replica");
    parts_.ending->Exit(kExitStopped);
  }
  team.Follow(plan);
  return true;
}

void StepLoop::MergeStates() {
  options_.sync_states();
  for (StepSums* sums : sums_) sums->Merge();
}

// --- Checkpoints and progress ---

bool StepLoop::SaveCheckpoint() {
  parts_.ending->ExitIfFenced();
  return parts_.checkpoints->Save(options_.collect_states);
}

bool StepLoop::SaveNow() {
  // Before anything of the step was applied, its samples are still to be read.
  if (parts_.replay->in_loop() && (step().taken() || step().exchanging())) {
    parts_.ending->FailUsage(
        "SaveAll() within a data loader's loop, after the step's gradients were computed: ask with "
        "RequestCheckpoint() for a checkpoint there");
  }
  MergeStates();
  const bool written = SaveCheckpoint() && parts_.checkpoints->AwaitWritten().ok();
  return parts_.team->SumOf(written ? 1 : 0) > 0;
}

void StepLoop::OnTrainingDone() {
  if (parts_.checkpoints->behind()) {
    MergeStates();
    SaveCheckpoint();
  }
  // Nobody ends before all have taken the last step: one that has not might need another's results.
  parts_.team->Gather("");
  training_done_ = true;
}

void StepLoop::OnEpochBoundary() {
  parts_.progress->FinishPass();
  ReportProgress();
}

void StepLoop::ReportProgress() {
  const Progress progress = parts_.progress->Report(parts_.replay->finished_epochs());
  if (parts_.team->leads()) parts_.control->UpdateProgress(progress);
}

}  // namespace adaptdl::elastic
