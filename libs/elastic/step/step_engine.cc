#include "libs/elastic/step/step_engine.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "adaptdl/tensorboard.h"
#include "libs/comm/communicator.h"
#include "libs/elastic/step/step_states.h"

namespace adaptdl::elastic {
namespace {

// Enough to choose a batch size by.
constexpr int64_t kFirstEstimates = 32;

// Whether an exchange failed because of what the program does.
bool IsMisuse(const absl::Status& failure) {
  return absl::IsFailedPrecondition(failure) || absl::IsUnimplemented(failure);
}

}  // namespace

StepEngine::StepEngine(Job& job, device::Device* device, ModelTensors* model, Optimizer* optimizer,
                       const Options& options)
    : job_(job),
      core_(job.core()),
      optimizer_(*optimizer),
      num_groups_(static_cast<size_t>(model->layout().num_groups)),
      num_parameters_(optimizer->CountParameters()),
      scaler_(options.grad_scaler),
      loss_scale_(options.loss_scale),
      rule_(options.scaling_rule),
      noise_({.groups = num_groups_,
              .smoothing = options.statistics_smoothing,
              .period = options.statistics_period,
              .first_estimates = kFirstEstimates}),
      leads_(core_.batches().ClaimLead()) {
  Register(std::make_unique<NoiseState>(options.name + "-noise-scale", &noise_));
  if (scaler_) Register(std::make_unique<GradScalerState>(options.name + "-grad-scaler", scaler_));
  exchange_ = std::make_unique<GradientExchange>(&core_.team().communicator(), device, model,
                                                 options.exchange, Callbacks());
  core_.team().OnGroupChange(this, [this](bool keeps_step) { exchange_->OnNewGroup(keeps_step); });
  core_.team().OnPlanned(this, [this](int size) { return size == 1 || exchange_->IsReadyForSeveral(); });
  if (leads_) core_.meter().UseDevice(device, [model] { return model->stream(); });
}

StepEngine::~StepEngine() {
  if (leads_) core_.meter().UseDevice(nullptr, nullptr);
  core_.team().OnPlanned(this, nullptr);
  core_.team().OnGroupChange(this, nullptr);
  for (const auto& state : states_) job_.Unregister(state.get());
}

void StepEngine::Register(std::unique_ptr<CheckpointState> state) {
  states_.push_back(std::move(state));
  job_.Register(states_.back().get());
}

GradientExchange::Callbacks StepEngine::Callbacks() {
  GradientExchange::Callbacks callbacks;
  callbacks.begin_pass = [this] { return Pass(); };
  callbacks.attempt = [this] { return core_.step().micro_batch().attempt; };
  callbacks.on_sent = [this] { core_.step().BeginExchange(); };
  callbacks.on_exchanged = [this](const absl::Status& status) {
    if (status.ok()) {
      core_.team().group().CompleteExchange();
    } else if (!exchange_->failed_here() && !IsMisuse(status)) {
      core_.step().NoteFailedExchange(status);
    }
  };
  callbacks.plan = [this](int64_t count, bool have_previous) {
    return noise_.PlanStep(count, have_previous);
  };
  callbacks.signals = [this] { return core_.loop().agreement().Local(); };
  callbacks.seconds = [this] { return core_.Seconds(); };
  callbacks.begin_wait = [this] { core_.watch().BeginWait(); };
  callbacks.end_wait = [this] { core_.watch().EndWait(); };
  return callbacks;
}

BackwardPass StepEngine::Pass() const {
  const MicroBatch& batch = core_.step().micro_batch();
  BackwardPass pass;
  pass.weight = batch.step_total == 0
                    ? 1.0 / core_.team().communicator().size()
                    : static_cast<double>(batch.local) / static_cast<double>(batch.step_total);
  pass.last = batch.last;
  pass.loss_scale = scaler_ ? scaler_->scale() : 1;
  pass.check_finite = scaler_ != nullptr;
  if (loss_scale_) {
    pass.loss_scale = loss_scale_();
    pass.keeps_loss_scale = true;
  }
  pass.batch_scale = SampleScale();
  pass.attempt = batch.attempt;
  // Without a data loader every pass is one of a new attempt.
  pass.is_void = core_.step().is_void() && batch.step_total > 0;
  return pass;
}

// Samples of the step by the initial batch size: less than the chosen scale in the last step of a pass.
double StepEngine::SampleScale() const {
  const MicroBatch& batch = core_.step().micro_batch();
  if (batch.step_total == 0) return batch.scale;
  return static_cast<double>(batch.step_total) / static_cast<double>(batch.initial_batch_size);
}

void StepEngine::ZeroGrad() {
  if (!exchange_->accumulating()) exchange_->ClearGradients();
}

void StepEngine::Step() {
  if (!core_.step().micro_batch().last) return;
  if (optimizer_.CountParameters() != num_parameters_) {
    core_.ending().FailUsage(
        "the optimiser was given parameters after AdaptiveDataParallel was made: their gradients would not "
        "be averaged. Give them to it before, with requires_grad false as long as they are not to be "
        "trained");
  }
  Complete(/*left_out=*/false);
}

bool StepEngine::MayMeasureNext() const {
  for (const bool have_previous : {false, true}) {
    const NoiseScale::Plan plan = noise_.PlanStep(1, have_previous);
    if (plan.norms || plan.compare || plan.keep) return true;
  }
  return false;
}

bool StepEngine::IsPlain() const {
  const StepInProgress& step = core_.step();
  const MicroBatch& batch = step.micro_batch();
  const bool only_pass = step.open() && !step.is_void() && batch.last && batch.local == batch.step_total &&
                         !exchange_->accumulating() && core_.team().communicator().size() == 1;
  return only_pass && !scaler_ && !loss_scale_ && batch.scale == 1 && rule_->KeepsRateAtScale1() &&
         !MayMeasureNext();
}

void StepEngine::LeaveOut() {
  if (exchange_->has_result()) Complete(/*left_out=*/true);
}

void StepEngine::Complete(bool left_out) {
  // A replica was lost between the backward pass and here.
  const bool dropped = exchange_->TakeDropped();
  if (dropped && !core_.step().is_void()) TakeOver();
  // Without a data loader nobody else begins the next attempt.
  if (core_.step().is_void() && core_.step().micro_batch().step_total == 0) core_.loop().RestartStep();
  if (dropped || core_.step().is_void()) return;
  if (const std::optional<ExchangeResult> taken = Take()) Finish(*taken, left_out);
}

// Nothing: a replica was lost meanwhile, and the step was taken elsewhere or is void.
std::optional<ExchangeResult> StepEngine::Take() {
  absl::StatusOr<ExchangeResult> result = exchange_->TakeResult();
  if (result.ok()) {
    core_.team().group().ApplyExchange();
    return *std::move(result);
  }
  if (IsMisuse(result.status())) core_.ending().FailUsage(std::string(result.status().message()));
  if (exchange_->failed_here()) core_.ending().FailDevice(result.status());
  if (core_.team().RecoverStep(result.status()) == Group::StepFate::kTaken) TakeOver();
  return std::nullopt;
}

// The step was taken elsewhere, and all states are as after it.
void StepEngine::TakeOver() {
  gain_ = core_.progress().last_gain();
  TellStatistics();
}

void StepEngine::TellStatistics() {
  if (!leads_) return;
  const double sqr = noise_.sqr_bound();
  const double var = noise_.var_avg();
  core_.batches().SetGradientStatistics(sqr, var);
  // Without a data loader nobody knows how many samples a step has.
  const MicroBatch& batch = core_.step().micro_batch();
  const bool known = noise_.weight() > 0 && batch.step_total > 0;
  core_.progress().SetGradients({.sqr = known ? sqr : -1,
                                 .var = var,
                                 .init_batch_size = batch.initial_batch_size,
                                 .scale = batch.scale,
                                 .learning_rate_factor = initialized_ ? learning_rate_factor_ : 0});
}

void StepEngine::Finish(const ExchangeResult& result, bool left_out) {
  core_.loop().AgreeOn(result.signals);
  const int64_t replicas = core_.team().communicator().size();
  accum_count_ = (result.micro_batches + replicas - 1) / replicas;
  UpdateStatistics(result);
  const bool overflowed = !result.finite;
  if (scaler_) scaler_->Update(overflowed);
  if (overflowed || left_out) {
    gain_ = 0;
  } else {
    Apply();
  }
  core_.loop().OnOptimizerStep(result.sync_time, gain_);
  TellStatistics();
}

void StepEngine::UpdateStatistics(const ExchangeResult& result) {
  StepNorms norms;
  norms.count = std::max<int64_t>(result.micro_batches, 1);
  norms.scale = SampleScale();
  norms.local_sqr = result.local_sqr;
  norms.local_weight = 1;
  if (result.measured) norms.total_sqr = result.total_sqr;
  if (result.pair) {
    norms.total_sqr = result.pair->current_sqr;
    norms.previous_sqr = result.pair->previous_sqr;
    norms.previous_dot = result.pair->dot;
    norms.previous_scale = result.pair->previous_scale;
  }
  noise_.Update(norms);
}

void StepEngine::Apply() {
  const MicroBatch& batch = core_.step().micro_batch();
  if (!initialized_) rule_->Initialize(batch.initial_batch_size, static_cast<int>(num_groups_));
  initialized_ = true;
  const NoiseScale::Certain certain = noise_.CertainAt(batch.scale);
  const std::vector<double> factors = rule_->Factors({.scale = batch.scale,
                                                      .sqr = certain.sqr,
                                                      .var = certain.var,
                                                      .progress = noise_.progress(),
                                                      .init_batch_size = batch.initial_batch_size});
  CheckFactors(factors);
  optimizer_.Step(factors);
  learning_rate_factor_ =
      std::accumulate(factors.begin(), factors.end(), 0.0) / static_cast<double>(factors.size());
  gain_ = noise_.CertainGain(batch.scale);
  noise_.Advance(gain_);
}

void StepEngine::CheckFactors(const std::vector<double>& factors) {
  const bool valid = factors.size() == num_groups_ &&
                     std::all_of(factors.begin(), factors.end(),
                                 [](double factor) { return std::isfinite(factor) && factor >= 0; });
  if (valid) return;
  core_.ending().FailUsage(absl::StrCat(
      "the scaling rule \"", rule_->name(), "\" gave [", absl::StrJoin(factors, ", "),
      "]; it must give one finite number of at least 0 for each of the ", num_groups_, " parameter groups"));
}

void StepEngine::ToTensorBoard(TensorBoardWriter& writer, int64_t step, const std::string& prefix) const {
  writer.AddScalar(prefix + "Gradient_Norm_Sqr", noise_.sqr_avg(), step);
  writer.AddScalar(prefix + "Gradient_Variance", noise_.var_avg(), step);
  writer.AddScalar(prefix + "Gain", gain_, step);
  writer.AddScalar(prefix + "Learning_Rate_Factor", learning_rate_factor_, step);
  writer.AddScalar(prefix + "Progress", noise_.progress(), step);
  if (accum_count_ == 0) return;
  writer.AddScalar(prefix + "Accum_Scale", SampleScale() / static_cast<double>(accum_count_), step);
  writer.AddScalar(prefix + "Accum_Count", static_cast<double>(accum_count_), step);
}

}  // namespace adaptdl::elastic
