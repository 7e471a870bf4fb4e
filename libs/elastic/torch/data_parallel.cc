#include "adaptdl/data_parallel.h"

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/comm/communicator.h"
#include "libs/elastic/gradients/bucket_reserve.h"
#include "libs/elastic/gradients/gradient_buckets.h"
#include "libs/elastic/job/job_core.h"
#include "libs/elastic/step/step_engine.h"
#include "libs/elastic/torch/gradient_hooks.h"
#include "libs/elastic/torch/optimizer_state.h"
#include "libs/elastic/torch/tensor_states.h"
#include "libs/elastic/torch/torch_devices.h"
#include "libs/elastic/torch/torch_optimizer.h"
#include "libs/elastic/torch/torch_tensors.h"
#include "torch/nn/module.h"
#include "torch/optim/optimizer.h"
#include "torch/utils.h"

namespace adaptdl {
namespace {

using elastic::TorchTensors;

// The model's parameters that the optimiser trains, by its groups, and the buffers that are averaged: each
// once, under however many names the model has it. Those that are frozen may be trained later.
absl::StatusOr<TorchTensors::Tensors> TensorsOf(torch::nn::Module& model,
                                                torch::optim::Optimizer& optimizer) {
  TorchTensors::Tensors tensors;
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
      return absl::InvalidArgumentError(absl::StrCat(
          "parameter group ", group, " of the optimiser holds a tensor of shape [",
          absl::StrJoin(parameter.sizes(), ", "),
          "] that is no parameter of the model: its gradient would not be averaged over the replicas. Make "
          "it one (register_parameter(), register_module()), or give it an optimiser and an "
          "AdaptiveDataParallel of its own"));
    }
  }
  if (tensors.parameters.empty()) {
    return absl::InvalidArgumentError("the optimiser has none of the model's parameters");
  }
  for (const at::Tensor& buffer : model.buffers()) {
    if (!buffer.is_floating_point() || !seen.insert(buffer.unsafeGetTensorImpl()).second) continue;
    tensors.buffers.push_back(buffer);
  }
  if (absl::Status possible = TorchTensors::Check(tensors); !possible.ok()) return possible;
  return tensors;
}

std::shared_ptr<ScalingRule> RuleFor(const DataParallelOptions& options, bool is_adam) {
  if (options.scaling_rule) return options.scaling_rule;
  if (is_adam) return std::make_shared<AdamScale>();
  return std::make_shared<AdaScale>();
}

}  // namespace

// LibTorch's side: its states, tensors, optimiser and hooks, which the step engine works with.
class AdaptiveDataParallel::Impl {
 public:
  Impl(Job& job, torch::nn::Module& model, torch::optim::Optimizer& optimizer,
       const DataParallelOptions& options)
      : job_(job),
        model_state_(options.name + "-model.safetensors", &model),
        optimizer_state_(options.name + "-optimizer.safetensors", &model, &optimizer),
        optimizer_(&optimizer),
        tensors_(Describe(model, optimizer)),
        core_(Meet(options)),
        random_state_(options.name + "-random", at::kCPU, job.rank()) {
    const bool restored = job.Register(&model_state_);
    job.Register(&optimizer_state_);
    job.Register(&random_state_);
    if (!tensors().device().is_cpu()) {
      device_random_state_.emplace(options.name + "-device-random", tensors().device(), job.rank());
      job.Register(&*device_random_state_);
    }
    // Whatever is restored is the same on all replicas.
    if (!restored) Broadcast(model);
    engine_ =
        std::make_unique<elastic::StepEngine>(job, Device(), &tensors(), &optimizer_, EngineOptions(options));
    hooks_ = std::make_unique<elastic::GradientHooks>(&engine_->exchange(), &tensors());
  }

  ~Impl() {
    hooks_.reset();
    engine_.reset();
    if (device_random_state_) job_.Unregister(&*device_random_state_);
    job_.Unregister(&random_state_);
    job_.Unregister(&optimizer_state_);
    job_.Unregister(&model_state_);
  }

  elastic::StepEngine& engine() { return *engine_; }
  const elastic::StepEngine& engine() const { return *engine_; }

 private:
  using Described = absl::StatusOr<std::unique_ptr<TorchTensors>>;

  Described Describe(torch::nn::Module& model, torch::optim::Optimizer& optimizer) {
    absl::StatusOr<TorchTensors::Tensors> found = TensorsOf(model, optimizer);
    if (!found.ok()) return found.status();
    return std::make_unique<TorchTensors>(*std::move(found), &optimizer_);
  }

  // Once the replicas have met.
  TorchTensors& tensors() { return **tensors_; }

  elastic::JobCore& Meet(const DataParallelOptions& options) {
    job_.Expect(&model_state_);
    job_.Expect(&optimizer_state_);
    if (tensors_.ok()) ReserveBuckets(options);
    elastic::JobCore& core = job_.core();
    if (!tensors_.ok()) core.ending().FailUsage(std::string(tensors_.status().message()));
    return core;
  }

  // While the other replicas of a job that this one joins go on.
  void ReserveBuckets(const DataParallelOptions& options) {
    const absl::StatusOr<device::Device*> device = elastic::DeviceFor(tensors().device());
    // What is wrong with it is said once the replicas have met.
    if (!device.ok()) return;
    reserve_.emplace(*device);
    if (job_.num_replicas() == 1) return;
    reserve_->Get(elastic::GradientBuckets::SizesFor(&tensors(), BucketOptions(options)));
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

  // The tensors', which all of them are on.
  device::Device* Device() {
    const absl::StatusOr<device::Device*> device = elastic::DeviceFor(tensors().device());
    if (!device.ok()) core_.ending().FailUsage(std::string(device.status().message()));
    return *device;
  }

  static elastic::GradientBuckets::Options BucketOptions(const DataParallelOptions& options) {
    return {.bytes = options.bucket_bytes, .reduce_halves_as_they_are = options.reduce_halves_as_they_are};
  }

  elastic::StepEngine::Options EngineOptions(const DataParallelOptions& options) {
    elastic::StepEngine::Options engine;
    engine.name = options.name;
    engine.exchange.buckets = BucketOptions(options);
    if (reserve_) engine.exchange.buckets.reserve = &*reserve_;
    engine.exchange.overlap = options.overlap;
    engine.scaling_rule = RuleFor(options, optimizer_.is_adam());
    engine.grad_scaler = options.grad_scaler;
    engine.statistics_period = options.statistics_period;
    engine.statistics_smoothing = options.statistics_smoothing;
    return engine;
  }

  Job& job_;
  elastic::ModuleState model_state_;
  elastic::OptimizerState optimizer_state_;
  elastic::TorchOptimizer optimizer_;
  const Described tensors_;
  // What buckets are made of.
  std::optional<elastic::BucketReserve> reserve_;
  elastic::JobCore& core_;
  elastic::RandomState random_state_;
  // Of the model's device, where that is not the CPU.
  std::optional<elastic::RandomState> device_random_state_;
  std::unique_ptr<elastic::StepEngine> engine_;
  std::unique_ptr<elastic::GradientHooks> hooks_;
};

AdaptiveDataParallel::AdaptiveDataParallel(Job& job, torch::nn::Module& model,
                                           torch::optim::Optimizer& optimizer,
                                           const DataParallelOptions& options)
    : impl_(std::make_unique<Impl>(job, model, optimizer, options)) {}

AdaptiveDataParallel::~AdaptiveDataParallel() = default;

void AdaptiveDataParallel::Step() { impl_->engine().Step(); }
void AdaptiveDataParallel::ZeroGrad() { impl_->engine().ZeroGrad(); }
double AdaptiveDataParallel::Gain() const { return impl_->engine().gain(); }
double AdaptiveDataParallel::LearningRateFactor() const { return impl_->engine().learning_rate_factor(); }
double AdaptiveDataParallel::SqrAvg() const { return impl_->engine().noise().sqr_avg(); }
double AdaptiveDataParallel::VarAvg() const { return impl_->engine().noise().var_avg(); }
double AdaptiveDataParallel::Progress() const { return impl_->engine().noise().progress(); }

void AdaptiveDataParallel::ToTensorBoard(TensorBoardWriter& writer, int64_t step,
                                         const std::string& prefix) const {
  impl_->engine().ToTensorBoard(writer, step, prefix);
}

}  // namespace adaptdl
