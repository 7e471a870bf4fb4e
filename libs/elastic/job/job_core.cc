#include "libs/elastic/job/job_core.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace adaptdl::elastic {
namespace {

HintsReporter::Options HintsOptions(const Environment& environment) {
  HintsReporter::Options options;
  options.period = absl::ToDoubleSeconds(environment.hints_period);
  options.first_after = std::min(options.first_after, options.period);
  return options;
}

// Numbers as a text that keeps every bit.
std::string ToText(absl::Span<const double> numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<JobCore>> JobCore::Create(JobDependencies dependencies) {
  std::unique_ptr<JobCore> core(new JobCore(std::move(dependencies)));
  // While those that train go on.
  if (core->dependencies_.control->plans_groups()) core->ReserveMemory();
  const absl::StatusOr<bool> continues = core->group_.Form();
  if (!continues.ok()) return continues.status();
  core->SetUpRank();
  if (!*continues) {
    if (absl::Status status = core->Restore(); !status.ok()) return status;
  }
  core->last_checkpoint_ = core->Seconds();
  core->dependencies_.control->Start(core.get());
  core->background_ = std::thread([raw = core.get()] { raw->RunBackground(); });
  return core;
}

JobCore::JobCore(JobDependencies dependencies)
    : dependencies_(std::move(dependencies)),
      environment_(dependencies_.environment),
      group_(dependencies_.control.get(), dependencies_.transport, this,
             {.plan_timeout = dependencies_.plan_timeout, .seconds = dependencies_.seconds}),
      hints_(&profile_, dependencies_.control.get(), HintsOptions(environment_)),
      step_patience_(absl::ToDoubleSeconds(environment_.hang_timeout)) {
  if (!dependencies_.thread_clock) return;
  thread_clock_ = dependencies_.thread_clock();
  ran_at_ = Seconds();
}

// What depends on the place in the group.
void JobCore::SetUpRank() {
  leads_ = group_.rank() == 0;
  controller_.SetReplicas({.topology = {.nodes = membership().num_nodes, .replicas = membership().world_size},
                           .gpu_types = membership().gpu_types,
                           .group = membership().group});
  if (!leads_ || environment_.checkpoint_path.empty()) return;
  if (writer_) {
    writer_->SetGroup(membership().group);
    return;
  }
  writer_ = std::make_unique<CheckpointWriter>(
      CheckpointStore::Options{.folder = environment_.checkpoint_path,
                               .group = membership().group,
                               .keep = environment_.checkpoint_keep,
                               .before_step = dependencies_.before_checkpoint_step},
      [this](int64_t step, const absl::StatusOr<int64_t>& version) { OnWritten(step, version); });
  MutexLock lock(&mutex_);
  cancellable_ = writer_.get();
  if (fenced_) cancellable_->Cancel();
}

JobCore::~JobCore() {
  if (dependencies_.on_end) dependencies_.on_end();
  {
    MutexLock lock(&mutex_);
    ending_ = true;
    changed_.SignalAll();
  }
  if (background_.joinable()) background_.join();
  // Finishes the last checkpoint, while the other replicas wait at the barrier; unless the control plane says
  // that this one is not wanted any more.
  if (writer_) (void)writer_->Await(absl::InfiniteDuration());
  {
    MutexLock lock(&mutex_);
    cancellable_ = nullptr;
  }
  writer_.reset();
  // All replicas are past their last step. One that leaves early may break the others' barrier, which is no
  // loss.
  if (training_done_) (void)communicator().Barrier();
  dependencies_.control->Shutdown();
}

void JobCore::OnNewGroup(bool keeps_step) {
  SetUpRank();
  // How many samples streams have is for the new members to say.
  agreed_stream_samples_ = 0;
  for (const auto& [owner, handler] : group_handlers_) handler(keeps_step);
  if (leads_) {
    std::fprintf(stderr, "adaptdl: goes on as group %lld with %d replicas\n",
                 static_cast<long long>(membership().group), membership().world_size);
  }
}

void JobCore::OnGroupChange(const void* owner, std::function<void(bool keeps_step)> handler) {
  if (handler) {
    group_handlers_[owner] = std::move(handler);
  } else {
    group_handlers_.erase(owner);
  }
}

std::vector<std::string> JobCore::Gather(const std::string& value) {
  ExitIfFenced();
  // Between a backward pass and its step: without its gradients there is nothing that the rest of the body
  // could be about.
  if (!exchange_failure_.ok()) {
    RecoverStep(absl::Status(exchange_failure_));
    return {};
  }
  if (step_void_) return {};
  BeginWait();
  auto values = group_.Gather(value, /*in_step=*/in_step_ && !stepped_);
  EndWait();
  Check(values.status());
  if (values->has_value()) return **std::move(values);
  // A part of the step was applied, and cannot be taken back.
  if (stepped_) Fail(absl::UnavailableError("a member was lost between two parts of a step"));
  VoidStep();
  return {};
}

void JobCore::VoidStep() {
  exchanging_ = false;
  step_void_ = true;
}

int64_t JobCore::SumOf(int64_t value) {
  int64_t sum = 0;
  for (const std::string& text : Gather(absl::StrCat(value))) sum += std::strtoll(text.c_str(), nullptr, 10);
  return sum;
}

Group::StepFate JobCore::RecoverStep(const absl::Status& failure) {
  ExitIfFenced();
  exchange_failure_ = absl::OkStatus();
  // A part of the step was applied, and cannot be taken back.
  if (stepped_) Fail(failure);
  BeginWait();
  const absl::StatusOr<Group::StepFate> fate = group_.RecoverStep(failure);
  EndWait();
  Check(fate.status());
  exchanging_ = false;
  if (*fate == Group::StepFate::kVoid) VoidStep();
  return *fate;
}

void JobCore::ClearVoidStep() {
  step_void_ = false;
  exchanging_ = exchanged_ = false;
  micro_batch_times_.clear();
  step_start_ = Seconds();
  for (Accumulator* accumulator : accumulators_) accumulator->DropStep();
}

void JobCore::Detach(Accumulator* accumulator) { std::erase(accumulators_, accumulator); }

void JobCore::RequestStop(const std::string& reason) {
  MutexLock lock(&mutex_);
  if (stop_requested_) return;
  stop_requested_ = true;
  stop_time_ = Seconds();
  std::fprintf(stderr, "adaptdl: asked to stop (%s)\n", reason.c_str());
  changed_.SignalAll();
}

void JobCore::RequestCheckpoint(const std::string& reason) {
  MutexLock lock(&mutex_);
  checkpoint_requested_ = true;
  std::fprintf(stderr, "adaptdl: asked for a checkpoint (%s)\n", reason.c_str());
}

void JobCore::OnFenced(const std::string& reason) {
  std::fprintf(stderr, "adaptdl: this replica is not wanted any more: %s\n", reason.c_str());
  {
    MutexLock lock(&mutex_);
    fenced_ = true;
    if (cancellable_ != nullptr) cancellable_->Cancel();
  }
  group_.Abort(absl::StrCat("fenced off: ", reason));
}

JobCore::Signals JobCore::LocalSignals(bool in_step) {
  MutexLock lock(&mutex_);
  Signals signals;
  signals.stop = stop_requested_ ? 1 : 0;
  signals.checkpoint = checkpoint_requested_ || PeriodIsOver(in_step) ? 1 : 0;
  signals.news = news_.empty() ? 0 : 1;
  // What was chosen for other replicas suits these in no way.
  if (proposed_batch_ && proposed_batch_->group != membership().group) proposed_batch_ = std::nullopt;
  if (proposed_batch_) {
    signals.atomic_batch_size = static_cast<double>(proposed_batch_->batch.atomic_batch_size);
    signals.micro_batches = static_cast<double>(proposed_batch_->batch.accumulation_steps + 1);
  }
  signals.stream_samples = static_cast<double>(stream_samples_);
  signals.plans = group_.HoldsPlan() ? 1 : 0;
  signals.members = 1;
  return signals;
}

bool JobCore::PeriodIsOver(bool in_step) const {
  // Storage that is slower than the period gets the checkpoints that it can take.
  if (!leads_ || !writer_ || writer_->busy()) return false;
  const int64_t steps = optimizer_steps_ + (in_step ? 1 : 0) - saved_steps_;
  if (environment_.checkpoint_period_steps > 0) return steps >= environment_.checkpoint_period_steps;
  return steps > 0 && Seconds() - last_checkpoint_ >= absl::ToDoubleSeconds(environment_.checkpoint_period);
}

void JobCore::AgreeOn(const Signals& sums) {
  last_signals_ = sums;
  agreed_.plans = sums.plans;
  agreed_.members = sums.members;
  agreed_.stop += sums.stop;
  agreed_.checkpoint += sums.checkpoint;
  agreed_.news += sums.news;
  agreed_stream_samples_ = static_cast<int64_t>(sums.stream_samples);
  exchanged_ = true;
  if (sums.micro_batches == 0) return;
  chosen_batch_.atomic_batch_size = static_cast<int64_t>(sums.atomic_batch_size);
  chosen_batch_.micro_batches = static_cast<int64_t>(sums.micro_batches);
  chosen_batch_.replicas = static_cast<int>(sums.members);
  MutexLock lock(&mutex_);
  proposed_batch_ = std::nullopt;
}

void JobCore::Announce(const std::string& topic, const std::string& text) { news_.emplace_back(topic, text); }

void JobCore::Subscribe(const std::string& topic, NewsHandler handler) {
  if (handler) {
    news_handlers_[topic] = std::move(handler);
  } else {
    news_handlers_.erase(topic);
  }
}

void JobCore::ExchangeNews() {
  const std::vector<std::string> news = Gather(nlohmann::json(news_).dump());
  news_.clear();
  for (size_t rank = 0; rank < news.size(); ++rank) {
    const nlohmann::json items = nlohmann::json::parse(news[rank]);
    for (const auto& item : items) {
      const auto handler = news_handlers_.find(item.at(0).get<std::string>());
      if (handler == news_handlers_.end()) continue;
      handler->second(static_cast<int>(rank), item.at(1).get<std::string>());
    }
  }
}

void JobCore::OnOptimizerStep(double sync_time, double gain) {
  if (!stepped_) {
    ++optimizer_steps_;
    scale_invariant_steps_ += gain;
    last_gain_ = gain;
  }
  stepped_ = true;
  sync_time_ += sync_time;
}

void JobCore::StepBoundary(bool may_rescale) {
  if (stepped_) in_step_ = false;
  stepped_ = false;
  sync_time_ = 0;
  ExitIfFenced();
  if (step_void_) return;
  if (!exchanged_) {
    std::array<double, Signals::kCount> sums = {};
    const std::vector<std::string> all = Gather(ToText(LocalSignals(/*in_step=*/false).numbers()));
    if (step_void_) return;
    for (const std::string& text : all) {
      std::array<double, Signals::kCount> numbers;
      std::memcpy(numbers.data(), text.data(), sizeof(numbers));
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += numbers[i];
    }
    AgreeOn(Signals::Of(sums));
  }
  exchanged_ = exchanging_ = false;
  if (agreed_.news > 0) ExchangeNews();
  agreed_.news = 0;
  const bool all_hold_plans = agreed_.plans > 0 && agreed_.plans == agreed_.members;
  if (may_rescale && agreed_.stop == 0 && all_hold_plans) FollowPlan();
  agreed_.plans = 0;
  if (agreed_.stop == 0 && agreed_.checkpoint == 0) return;
  const bool stop = agreed_.stop > 0;
  agreed_ = {};
  {
    MutexLock lock(&mutex_);
    stop_time_ = -1;
    checkpoint_requested_ = false;
  }
  SaveCheckpoint();
  if (stop) Exit(kExitStopped);
}

// All replicas hold a plan, if not the same one.
void JobCore::FollowPlan() {
  const std::vector<std::string> plans = Gather(absl::StrCat(group_.NewestPlan()));
  if (plans.empty()) return;
  if (std::any_of(plans.begin(), plans.end(), [&](const auto& plan) { return plan != plans.front(); }))
    return;
  const int64_t plan = std::strtoll(plans.front().c_str(), nullptr, 10);
  MergeStates();
  // What a leaver alone knows has arrived everywhere before it leaves.
  Gather("");
  // Another group may have come about meanwhile, because members were lost.
  if (plan <= membership().group) return;
  if (group_.Leaves()) {
    std::fprintf(stderr, "adaptdl: leaves the job, which goes on without this replica\n");
    Exit(kExitStopped);
  }
  BeginWait();
  const absl::Status followed = group_.Follow(plan);
  EndWait();
  Check(followed);
}

// What is spread over the replicas becomes known to all.
void JobCore::MergeStates() {
  for (CheckpointState* state : states_) state->Sync();
  for (Accumulator* accumulator : accumulators_) accumulator->Merge();
}

bool JobCore::SaveCheckpoint() {
  MergeStates();
  ExitIfFenced();
  saved_steps_ = optimizer_steps_;
  bool submitted = false;
  if (writer_ && leads_) {
    writes_ = true;
    StateMap states = writer_->TakeBuffers();
    writes_ = false;
    try {
      CollectStates(&states);
      writer_->Submit(std::move(states), optimizer_steps_);
      submitted = true;
    } catch (const std::exception& error) {
      OnWritten(optimizer_steps_, absl::InternalError(error.what()));
    }
  }
  last_checkpoint_ = Seconds();
  return submitted;
}

// Also called by the writer's thread.
void JobCore::OnWritten(int64_t step, const absl::StatusOr<int64_t>& version) {
  if (version.ok()) {
    std::fprintf(stderr, "adaptdl: wrote checkpoint-%lld after step %lld\n", static_cast<long long>(*version),
                 static_cast<long long>(step));
  } else if (version.status().code() == absl::StatusCode::kAborted) {
    OnFenced(std::string(version.status().message()));
    return;
  } else {
    std::fprintf(stderr, "adaptdl: WARNING: no checkpoint was written, the one before stays: %s\n",
                 version.status().ToString().c_str());
  }
  dependencies_.control->ReportCheckpoint(step, version.status());
}

bool JobCore::SaveNow() {
  if (replay_.in_loop()) {
    FailUsage("SaveAll() within a data loader's loop: ask with RequestCheckpoint() for a checkpoint there");
  }
  const bool written = SaveCheckpoint() && AwaitWritten(absl::InfiniteDuration()).ok();
  return SumOf(written ? 1 : 0) > 0;
}

void JobCore::AwaitWriter() {
  if (writer_) (void)AwaitWritten(absl::InfiniteDuration());
}

absl::Status JobCore::AwaitWritten(absl::Duration timeout) {
  writes_ = true;
  const absl::Status status = writer_->Await(timeout);
  writes_ = false;
  return status;
}

void JobCore::OnTrainingDone() {
  if (optimizer_steps_ > saved_steps_) SaveCheckpoint();
  // Nobody ends before all have taken the last step: one that has not might need another's results.
  Gather("");
  training_done_ = true;
}

void JobCore::BeginMicroBatch() {
  in_step_ = true;
  stepped_ = false;
  sync_time_ = 0;
  if (std::this_thread::get_id() != created_by_) trains_elsewhere_ = true;
  if (step_start_ == 0) step_start_ = Seconds();
}

void JobCore::FinishMicroBatch() {
  const double now = Seconds();
  micro_batch_times_.push_back(now - step_start_);
  step_start_ = now;
}

void JobCore::FinishStep(const StepSummary& summary) {
  for (Accumulator* accumulator : accumulators_) accumulator->KeepStep();
  in_step_ = false;
  // A loop without optimiser steps, such as an evaluation, is no work that counts.
  if (stepped_) {
    Measure(summary);
    if (const auto times = group_.TakeTimes(Seconds())) dependencies_.control->ReportRescale(*times);
    pass_steps_ = summary.loop_steps;
    pass_fraction_ = summary.loop_fraction;
  }
  micro_batch_times_.clear();
  ReportProgress();
  StepBoundary(/*may_rescale=*/true);
  // From here on, so that reading the next batch is part of the next step's time, and a checkpoint of none.
  step_start_ = Seconds();
}

void JobCore::EndSteps() {
  for (Accumulator* accumulator : accumulators_) accumulator->KeepStep();
  in_step_ = false;
  step_void_ = false;
  step_start_ = 0;
  micro_batch_times_.clear();
}

void JobCore::Measure(const StepSummary& summary) {
  FinishMicroBatch();
  hints_.SetBatchSize(summary.init_batch_size, summary.limits);
  if (summary.base_batch_size > 0) {
    base_share_ = static_cast<double>(summary.base_batch_size) / static_cast<double>(summary.init_batch_size);
  }
  if (summary.limits.max_batch_size > 0) {
    const goodput::BatchConfig batch = {summary.atomic_batch_size, summary.micro_batches - 1};
    controller_.SetBatch(summary.init_batch_size, summary.limits, summary.batch_size,
                         summary.chosen ? std::optional<goodput::BatchConfig>(batch) : std::nullopt);
  }
  progress_.total_batch_size = summary.batch_size;
  progress_.local_batch_size = summary.atomic_batch_size;
  progress_.accumulation_steps = static_cast<int>(summary.micro_batches - 1);
  double duration = 0;
  for (const double time : micro_batch_times_) duration += time;
  if (steps_seen_ > 0) {
    step_patience_.Add(duration);
    patience_ = step_patience_.seconds();
    group_.SetPatience(absl::Seconds(step_patience_.seconds()));
  }
  if (steps_seen_++ == 0 || !summary.typical || !(duration > 0)) return;
  const ProfileKey key = {membership().num_nodes, membership().world_size, summary.atomic_batch_size,
                          membership().gpu_types};
  for (size_t i = 0; i + 1 < micro_batch_times_.size(); ++i) {
    profile_.AddAccumulationStep(key, micro_batch_times_[i]);
  }
  profile_.AddOptimizerStep(key, micro_batch_times_.back(), sync_time_);
  const double throughput = static_cast<double>(summary.samples) / duration;
  progress_.throughput += (progress_.throughput == 0 ? 1.0 : 0.05) * (throughput - progress_.throughput);
}

void JobCore::OnEpochBoundary() {
  pass_fraction_ = 0;
  ReportProgress();
}

void JobCore::ReportProgress() {
  progress_.optimizer_steps = optimizer_steps_;
  progress_.scale_invariant_steps = scale_invariant_steps_;
  progress_.total_scale_invariant_steps = static_cast<double>(progress_.total_epochs) * pass_steps_;
  progress_.epoch = replay_.finished_epochs();
  if (progress_.total_epochs > 0) {
    progress_.fraction =
        std::clamp((replay_.finished_epochs() + pass_fraction_) / progress_.total_epochs, 0.0, 1.0);
  }
  if (leads_) dependencies_.control->UpdateProgress(progress_);
}

void JobCore::ExitIfFenced() {
  bool fenced = false;
  {
    MutexLock lock(&mutex_);
    fenced = fenced_;
  }
  // Without a checkpoint: another group writes them now.
  if (fenced) Exit(kExitPeerLost);
}

void JobCore::Fail(const absl::Status& status) {
  ExitIfFenced();
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
      std::fprintf(stderr, "adaptdl: leaves the job, which goes on without this replica: %s\n",
                   std::string(status.message()).c_str());
      Exit(kExitStopped);
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kAborted:
      std::fprintf(stderr, "adaptdl: a peer was lost, this replica stops to be restarted: %s\n",
                   std::string(status.message()).c_str());
      Exit(kExitPeerLost);
    default:
      std::fprintf(stderr, "adaptdl: %s\n", status.ToString().c_str());
      Exit(1);
  }
}

void JobCore::FailUsage(const std::string& text) {
  std::fprintf(stderr, "adaptdl: %s\n", text.c_str());
  Exit(1);
}

void JobCore::Exit(int code) {
  if (writer_) {
    const absl::Status written = AwaitWritten(dependencies_.write_timeout);
    if (absl::IsDeadlineExceeded(written)) {
      std::fprintf(stderr,
                   "adaptdl: WARNING: the last checkpoint was not written in time, the one before stays\n");
    }
  }
  // A replica that stops in order tells how far it came.
  if (code == kExitStopped) dependencies_.control->Shutdown();
  dependencies_.exit(code);
  std::abort();
}

void JobCore::RunBackground() {
  constexpr absl::Duration kTick = absl::Milliseconds(100);
  for (;;) {
    {
      MutexLock lock(&mutex_);
      if (!ending_) changed_.WaitFor(&mutex_, kTick);
      if (ending_) return;
    }
    if (leads_) {
      const double now = Seconds();
      hints_.Tick(now);
      MaybeDecideBatch(now);
    }
    WatchTraining();
    WatchStop();
  }
}

void JobCore::WatchTraining() {
  if (!thread_clock_) return;  // Set before this thread began.
  const double time = thread_clock_();
  if (time == thread_time_ && waiting_since_ < 0 && !writes_) return;
  thread_time_ = time;
  ran_at_ = Seconds();
}

Activity JobCore::CurrentActivity() {
  const double now = Seconds();
  const double waiting_since = waiting_since_;
  Activity activity;
  activity.patience = patience_;
  if (waiting_since >= 0) {
    activity.waiting = std::max(now - waiting_since, 0.0);
    activity.standing = group_.standing();
  } else if (thread_clock_ && !trains_elsewhere_ && !writes_) {
    activity.idle = std::max(now - ran_at_, 0.0);
  }
  return activity;
}

// A peer that is gone without a trace must not keep this replica from ending in time.
void JobCore::WatchStop() {
  const double waiting_since = waiting_since_;
  if (waiting_since < 0) return;
  {
    MutexLock lock(&mutex_);
    if (stop_time_ < 0) return;
    const double waited = Seconds() - std::max(stop_time_, waiting_since);
    if (waited < absl::ToDoubleSeconds(dependencies_.stop_timeout)) return;
    stop_time_ = -1;
  }
  group_.Abort("the other replicas did not agree to stop in time");
}

}  // namespace adaptdl::elastic
