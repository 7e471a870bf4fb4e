#include "libs/elastic/torch/torch_optimizer.h"

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "ATen/ATen.h"
#include "torch/optim/adam.h"
#include "torch/optim/adamw.h"
#include "torch/optim/optimizer.h"
#include "torch/version.h"

namespace adaptdl::elastic {
namespace {

// The optimiser's state of a parameter, or null.
const torch::optim::OptimizerParamState* StateOf(const torch::optim::Optimizer& optimizer,
                                                 const at::Tensor& parameter) {
#if TORCH_VERSION_MAJOR >= 2
  const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
#else
  const auto found = optimizer.state().find(c10::guts::to_string(parameter.unsafeGetTensorImpl()));
#endif
  return found == optimizer.state().end() ? nullptr : found->second.get();
}

struct AdamMoments {
  int64_t step = 0;
  at::Tensor exp_avg_sq;
};

template <typename State>
std::optional<AdamMoments> MomentsAs(const torch::optim::OptimizerParamState* state) {
  const auto* adam = dynamic_cast<const State*>(state);
  if (adam == nullptr) return std::nullopt;
  return AdamMoments{adam->step(), adam->exp_avg_sq()};
}

std::optional<AdamMoments> AdamMomentsOf(const torch::optim::OptimizerParamState* state) {
  std::optional<AdamMoments> moments = MomentsAs<torch::optim::AdamParamState>(state);
  return moments ? moments : MomentsAs<torch::optim::AdamWParamState>(state);
}

struct AdamSettings {
  double beta2 = 0;
  double eps = 0;
};

std::optional<AdamSettings> SettingsOf(const torch::optim::OptimizerOptions& options) {
  if (const auto* adam = dynamic_cast<const torch::optim::AdamOptions*>(&options)) {
    return AdamSettings{std::get<1>(adam->betas()), adam->eps()};
  }
  if (const auto* adamw = dynamic_cast<const torch::optim::AdamWOptions*>(&options)) {
    return AdamSettings{std::get<1>(adamw->betas()), adamw->eps()};
  }
  return std::nullopt;
}

// The learning rates of an optimiser, multiplied for as long as this object lives.
class ScaledLearningRates {
 public:
  ScaledLearningRates(torch::optim::Optimizer* optimizer, absl::Span<const double> factors)
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

bool IsAdam(const torch::optim::Optimizer& optimizer) {
  return dynamic_cast<const torch::optim::Adam*>(&optimizer) != nullptr ||
         dynamic_cast<const torch::optim::AdamW*>(&optimizer) != nullptr;
}

}  // namespace

TorchOptimizer::TorchOptimizer(torch::optim::Optimizer* optimizer)
    : optimizer_(optimizer), is_adam_(IsAdam(*optimizer)) {}

size_t TorchOptimizer::CountParameters() const {
  size_t count = 0;
  for (const torch::optim::OptimizerParamGroup& group : optimizer_->param_groups()) {
    count += group.params().size();
  }
  return count;
}

void TorchOptimizer::Step(absl::Span<const double> factors) {
  const ScaledLearningRates scaled(optimizer_, factors);
  optimizer_->step();
}

std::optional<TorchOptimizer::Moments> TorchOptimizer::MomentsOf(const at::Tensor& parameter,
                                                                 int group) const {
  if (!is_adam_) return std::nullopt;
  const auto& options = optimizer_->param_groups()[static_cast<size_t>(group)].options();
  const std::optional<AdamSettings> settings = SettingsOf(options);
  const std::optional<AdamMoments> adam = AdamMomentsOf(StateOf(*optimizer_, parameter));
  if (!settings || !adam) return std::nullopt;
  const auto preconditioner = device::AdamPreconditioner(adam->step, settings->beta2, settings->eps);
  if (!preconditioner) return std::nullopt;
  return Moments{adam->exp_avg_sq, *preconditioner};
}

}  // namespace adaptdl::elastic
