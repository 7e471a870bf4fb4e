#include "adaptdl/data_parallel.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "adaptdl/tensorboard.h"
#include "libs/comm/communicator.h"
#include "libs/elastic/gradients/noise_scale.h"
#include "libs/elastic/job/job_core.h"
#include "libs/elastic/torch/gradient_exchange.h"
#include "libs/elastic/torch/gradient_norms.h"
#include "libs/elastic/torch/optimizer_state.h"
#include "libs/elastic/torch/tensor_states.h"
#include "torch/nn/module.h"
#include "torch/optim/optimizer.h"
#include "torch/utils.h"

namespace adaptdl {
namespace {

using elastic::BackwardPass;
using elastic::ExchangeResult;
using elastic::GradientExchange;
using elastic::NoiseScale;

// Enough to choose a batch size by.
constexpr int64_t kFirstEstimates = 32;

// Gradient statistics and progress.
class NoiseState final : public CheckpointState {
 public:
  NoiseState(std::string name, elastic::NoiseScale* noise) : name_(std::move(name)), noise_(noise) {}

  std::string name() const override { return name_; }
  bool changes_with_steps() const override { return true; }
  std::string Save() override { return noise_->Save(); }
  bool Load(const std::string& bytes) override {
    const absl::Status status = noise_->Load(bytes);
    if (!status.ok()) std::fprintf(stderr, "adaptdl: %s\n", status.ToString().c_str());
    return status.ok();
  }

 private:
  const std::string name_;
  elastic::NoiseScale* const noise_;
};

class GradScalerState final : public CheckpointState {
 public:
  GradScalerState(std::string name, GradScaler* scaler) : name_(std::move(name)), scaler_(scaler) {}

  std::string name() const override { return name_; }
  bool changes_with_steps() const override { return true; }
  std::string Save() override {
    return absl::StrFormat("%.17g %d", scaler_->scale(), scaler_->growth_steps());
  }
  bool Load(const std::string& bytes) override {
    const std::vector<std::string> parts = absl::StrSplit(bytes, ' ');
    double scale = 0;
    int64_t steps = 0;
    if (parts.size() != 2 || !absl::SimpleAtod(parts[0], &scale) || !absl::SimpleAtoi(parts[1], &steps) ||
        !(scale > 0) || !std::isfinite(scale) || steps < 0) {
      return false;
    }
    scaler_->Restore(scale, steps);
    return true;
  }

 private:
  const std::string name_;
  GradScaler* const scaler_;
};

// The learning rates of an optimiser, multiplied for as long as this object lives.
class ScaledLearningRates {
 public:
  ScaledLearningRates(torch::optim::Optimizer* optimizer, const std::vector<double>& factors)
      : optimizer_(optimizer) {
    for (size_t group = 0; group < factors.size(); ++group) {
      auto& options = optimizer_->param_groups()[group].options();
      rates_.push_back(options.get_lr());
      options.set_lr(rates_.back() * factors[group]);
    }
  }
  ~ScaledLearningRates() {
    for (size_t group = 0; group < rates_.size(); ++group) {
      optimizer_->param_groups()[group].options().set_lr(rates_[group]);
    }
  }
  ScaledLearningRates(const ScaledLearningRates&) = delete;
  ScaledLearningRates& operator=(const ScaledLearningRates&) = delete;

 private:
  torch::optim::Optimizer* const optimizer_;
  std::vector<double> rates_;
};

// The model's parameters that the optimiser trains, by its groups, and the buffers that are averaged: each
// once, under however many names the model has it. Those that are frozen may be trained later.
GradientExchange::Tensors TensorsOf(elastic::JobCore& core, torch::nn::Module& model,
                                    torch::optim::Optimizer& optimizer) {
  GradientExchange::Tensors tensors;
  std::unordered_map<const void*, int> group_of;
  tensors.num_groups = static_cast<int>(optimizer.param_groups().size());
  for (int group = 0; group < tensors.num_groups; ++group) {
    for (const at::Tensor& parameter : optimizer.param_groups()[static_cast<size_t>(group)].params()) {
      group_of[parameter.unsafeGetTensorImpl()] = group;
    }
  }
  std::unordered_set<const void*> seen;
  for (const at::Tensor& parameter : model.parameters()) {
    if (!seen.insert(parameter.unsafeGetTensorImpl()).second) continue;
    const auto group = group_of.find(parameter.unsafeGetTensorImpl());
    // What the optimiser leaves alone needs no gradient; whole numbers have none.
    if (group == group_of.end() || !parameter.is_floating_point()) continue;
    tensors.parameters.push_back(parameter);
    tensors.groups.push_back(group->second);
  }
  for (int group = 0; group < tensors.num_groups; ++group) {
    for (const at::Tensor& parameter : optimizer.param_groups()[static_cast<size_t>(group)].params()) {
      if (seen.contains(parameter.unsafeGetTensorImpl())) continue;
      core.ending().FailUsage(absl::StrCat(
          "parameter group ", group, " of the optimiser holds a tensor of shape [",
          absl::StrJoin(parameter.sizes(), ", "),
          "] that is no parameter of the model: its gradient would not be averaged over the replicas. Make "
          "it one (register_parameter(), register_module()), or give it an optimiser and an "
          "AdaptiveDataParallel of its own"));
    }
  }
  if (tensors.parameters.empty()) core.ending().FailUsage("the optimiser has none of the model's parameters");
  for (const at::Tensor& buffer : model.buffers()) {
    if (!buffer.is_floating_point() || !seen.insert(buffer.unsafeGetTensorImpl()).second) continue;
    tensors.buffers.push_back(buffer);
  }
  return tensors;
}

size_t CountParameters(const torch::optim::Optimizer& optimizer) {
  size_t count = 0;
  for (const torch::optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    count += group.params().size();
  }
  return count;
}

// Whether an exchange failed because of what the program does.
bool IsMisuse(const absl::Status& failure) {
  return absl::IsFailedPrecondition(failure) || absl::IsUnimplemented(failure);
}

std::shared_ptr<ScalingRule> RuleFor(const DataParallelOptions& options,
                                     const torch::optim::Optimizer& optimizer) {
  if (options.scaling_rule) return options.scaling_rule;
  if (elastic::IsAdam(optimizer)) return std::make_shared<AdamScale>();
  return std::make_shared<AdaScale>();
}

}  // namespace

class AdaptiveDataParallel::Impl {
 public:
  Impl(Job& job, torch::nn::Module& model, torch::optim::Optimizer& optimizer,
       const DataParallelOptions& options)
      : job_(job),
        optimizer_(optimizer),
        model_state_(options.name + "-model.safetensors", &model),
        optimizer_state_(options.name + "-optimizer.safetensors", &model, &optimizer),
        core_(Meet()),
        scaler_(options.grad_scaler),
        rule_(RuleFor(options, optimizer)),
        tensors_(TensorsOf(core_, model, optimizer)),
        optimizer_parameters_(CountParameters(optimizer)),
        noise_({.groups = static_cast<size_t>(tensors_.num_groups),
                .period = options.statistics_period,
                .first_estimates = kFirstEstimates}),
        norms_(&optimizer, elastic::IsAdam(optimizer), tensors_.parameters, tensors_.groups),
        leads_(core_.batches().ClaimLead()) {
    const bool restored = job.Register(&model_state_);
    job.Register(&optimizer_state_);
    Register(std::make_unique<elastic::RandomState>(options.name + "-random", job.rank()));
    Register(std::make_unique<NoiseState>(options.name + "-noise-scale", &noise_));
    if (scaler_) Register(std::make_unique<GradScalerState>(options.name + "-grad-scaler", scaler_));
    // Whatever is restored is the same on all replicas.
    if (!restored) Broadcast(model);
    exchange_ = std::make_unique<GradientExchange>(
        &core_.team().communicator(), &norms_, tensors_,
        GradientExchange::Options{.bucket_bytes = options.bucket_bytes, .overlap = options.overlap},
        Callbacks());
    core_.team().OnGroupChange(this, [this](bool keeps_step) { exchange_->OnNewGroup(keeps_step); });
  }

  ~Impl() {
    core_.team().OnGroupChange(this, nullptr);
    for (const auto& state : states_) job_.Unregister(state.get());
    job_.Unregister(&optimizer_state_);
    job_.Unregister(&model_state_);
  }

  void Step() {
    if (!core_.step().micro_batch().last) return;
    if (CountParameters(optimizer_) != optimizer_parameters_) {
      core_.ending().FailUsage(
          "the optimiser was given parameters after AdaptiveDataParallel was made: their gradients would not "
          "be averaged. Give them to it before, with requires_grad false as long as they are not to be "
          "trained");
    }
    // A replica was lost between the backward pass and here.
    const bool dropped = exchange_->TakeDropped();
    if (dropped && !core_.step().is_void()) TakeOver();
    // Without a data loader nobody else begins the next attempt.
    if (core_.step().is_void() && core_.step().micro_batch().step_total == 0) core_.loop().RestartStep();
    if (dropped || core_.step().is_void()) return;
    if (const std::optional<ExchangeResult> taken = Take()) Finish(*taken);
  }

  void ZeroGrad() {
    if (!exchange_->accumulating()) exchange_->ClearGradients();
  }

  void ToTensorBoard(TensorBoardWriter& writer, int64_t step, const std::string& prefix) const {
    writer.AddScalar(prefix + "Gradient_Norm_Sqr", noise_.sqr_avg(), step);
    writer.AddScalar(prefix + "Gradient_Variance", noise_.var_avg(), step);
    writer.AddScalar(prefix + "Gain", gain_, step);
    writer.AddScalar(prefix + "Learning_Rate_Factor", learning_rate_factor_, step);
    writer.AddScalar(prefix + "Progress", noise_.progress(), step);
    if (accum_count_ == 0) return;
    writer.AddScalar(prefix + "Accum_Scale", SampleScale() / static_cast<double>(accum_count_), step);
    writer.AddScalar(prefix + "Accum_Count", static_cast<double>(accum_count_), step);
  }

  const NoiseScale& noise() const { return noise_; }
  double gain() const { return gain_; }
  double learning_rate_factor() const { return learning_rate_factor_; }

 private:
  elastic::JobCore& Meet() {
    job_.Expect(&model_state_);
    job_.Expect(&optimizer_state_);
    return job_.core();
  }

  void Register(std::unique_ptr<CheckpointState> state) {
    states_.push_back(std::move(state));
    job_.Register(states_.back().get());
  }

  void Broadcast(torch::nn::Module& model) {
    if (core_.team().communicator().size() == 1) return;
    torch::NoGradGuard no_gradients;
    std::vector<at::Tensor> tensors = model.parameters();
    for (const at::Tensor& buffer : model.buffers()) tensors.push_back(buffer);
    for (at::Tensor& tensor : tensors) {
      at::Tensor copy = tensor.detach().to(at::kCPU).contiguous().clone();
      comm::Buffer bytes{copy.data_ptr(), static_cast<int64_t>(copy.nbytes()), comm::DataType::kUint8};
      core_.ending().Check(core_.team().communicator().Broadcast(bytes, 0));
      tensor.copy_(copy);
    }
  }

  GradientExchange::Callbacks Callbacks() {
    GradientExchange::Callbacks callbacks;
    callbacks.begin_pass = [this] { return Pass(); };
    callbacks.attempt = [this] { return core_.step().micro_batch().attempt; };
    callbacks.on_sent = [this] { core_.step().BeginExchange(); };
    callbacks.on_exchanged = [this](const absl::Status& status) {
      if (status.ok()) {
        core_.team().group().CompleteExchange();
      } else if (!IsMisuse(status)) {
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

  BackwardPass Pass() const {
    const elastic::MicroBatch& batch = core_.step().micro_batch();
    BackwardPass pass;
    pass.weight = batch.step_total == 0
                      ? 1.0 / core_.team().communicator().size()
                      : static_cast<double>(batch.local) / static_cast<double>(batch.step_total);
    pass.last = batch.last;
    pass.loss_scale = scaler_ ? scaler_->scale() : 1;
    pass.check_finite = scaler_ != nullptr;
    pass.batch_scale = SampleScale();
    pass.attempt = batch.attempt;
    // Without a data loader every pass is one of a new attempt.
    pass.is_void = core_.step().is_void() && batch.step_total > 0;
    return pass;
  }

  // Samples of the step by the initial batch size: less than the chosen scale in the last step of a pass.
  double SampleScale() const {
    const elastic::MicroBatch& batch = core_.step().micro_batch();
    if (batch.step_total == 0) return batch.scale;
    return static_cast<double>(batch.step_total) / static_cast<double>(batch.initial_batch_size);
  }

  // Nothing: a replica was lost meanwhile, and the step was taken elsewhere or is void.
  std::optional<ExchangeResult> Take() {
    absl::StatusOr<ExchangeResult> result = exchange_->TakeResult();
    if (result.ok()) {
      core_.team().group().ApplyExchange();
      return *std::move(result);
    }
    if (IsMisuse(result.status())) core_.ending().FailUsage(std::string(result.status().message()));
    if (core_.team().RecoverStep(result.status()) == elastic::Group::StepFate::kTaken) TakeOver();
    return std::nullopt;
  }

  // The step was taken elsewhere, and all states are as after it.
  void TakeOver() {
    gain_ = core_.progress().last_gain();
    if (leads_) core_.batches().SetGradientStatistics(noise_.sqr_bound(), noise_.var_avg());
  }

  void Finish(const ExchangeResult& result) {
    core_.loop().AgreeOn(result.signals);
    const int64_t replicas = core_.team().communicator().size();
    accum_count_ = (result.micro_batches + replicas - 1) / replicas;
    UpdateStatistics(result);
    const bool overflowed = !result.finite;
    if (scaler_) scaler_->Update(overflowed);
    if (overflowed) {
      gain_ = 0;
    } else {
      Apply();
    }
    core_.loop().OnOptimizerStep(result.sync_time, gain_);
    if (leads_) core_.batches().SetGradientStatistics(noise_.sqr_bound(), noise_.var_avg());
  }

  void UpdateStatistics(const ExchangeResult& result) {
    elastic::StepNorms norms;
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

  void Apply() {
    const double scale = core_.step().micro_batch().scale;
    if (!initialized_) rule_->Initialize(core_.step().micro_batch().initial_batch_size, tensors_.num_groups);
    initialized_ = true;
    const NoiseScale::Certain certain = noise_.CertainAt(scale);
    const std::vector<double> factors =
        rule_->Factors({.scale = scale,
                        .sqr = certain.sqr,
                        .var = certain.var,
                        .progress = noise_.progress(),
                        .init_batch_size = core_.step().micro_batch().initial_batch_size});
    CheckFactors(factors);
    {
      const ScaledLearningRates scaled(&optimizer_, factors);
      optimizer_.step();
    }
    learning_rate_factor_ =
        std::accumulate(factors.begin(), factors.end(), 0.0) / static_cast<double>(factors.size());
    gain_ = noise_.CertainGain(scale);
    noise_.Advance(gain_);
  }

  void CheckFactors(const std::vector<double>& factors) {
    const bool valid = factors.size() == static_cast<size_t>(tensors_.num_groups) &&
                       std::all_of(factors.begin(), factors.end(),
                                   [](double factor) { return std::isfinite(factor) && factor >= 0; });
    if (valid) return;
    core_.ending().FailUsage(absl::StrCat("the scaling rule \"", rule_->name(), "\" gave [",
                                          absl::StrJoin(factors, ", "),
                                          "]; it must give one finite number of at least 0 for each of the ",
                                          tensors_.num_groups, " parameter groups"));
  }

  Job& job_;
  torch::optim::Optimizer& optimizer_;
  elastic::ModuleState model_state_;
  elastic::OptimizerState optimizer_state_;
  elastic::JobCore& core_;
  GradScaler* const scaler_;
  const std::shared_ptr<ScalingRule> rule_;
  const GradientExchange::Tensors tensors_;
  // How many the optimiser had when tensors_ was made of them.
  const size_t optimizer_parameters_;
  NoiseScale noise_;
  elastic::GradientNorms norms_;
  // Whether this model's gradients tell the job's progress.
  const bool leads_;
  // The others.
  std::vector<std::unique_ptr<CheckpointState>> states_;
  std::unique_ptr<GradientExchange> exchange_;
  bool initialized_ = false;
  double gain_ = 1;
  double learning_rate_factor_ = 1;
  // Micro-batches of one replica in the last step. 0: no step was taken.
  int64_t accum_count_ = 0;
};

AdaptiveDataParallel::AdaptiveDataParallel(Job& job, torch::nn::Module& model,
                                           torch::optim::Optimizer& optimizer,
                                           const DataParallelOptions& options)
    : impl_(std::make_unique<Impl>(job, model, optimizer, options)) {}

AdaptiveDataParallel::~AdaptiveDataParallel() = default;

void AdaptiveDataParallel::Step() { impl_->Step(); }
void AdaptiveDataParallel::ZeroGrad() { impl_->ZeroGrad(); }
double AdaptiveDataParallel::Gain() const { return impl_->gain(); }
double AdaptiveDataParallel::LearningRateFactor() const { return impl_->learning_rate_factor(); }
double AdaptiveDataParallel::SqrAvg() const { return impl_->noise().sqr_avg(); }
double AdaptiveDataParallel::VarAvg() const { return impl_->noise().var_avg(); }
double AdaptiveDataParallel::Progress() const { return impl_->noise().progress(); }

void AdaptiveDataParallel::ToTensorBoard(TensorBoardWriter& writer, int64_t step,
                                         const std::string& prefix) const {
  impl_->ToTensorBoard(writer, step, prefix);
}

}  // namespace adaptdl
