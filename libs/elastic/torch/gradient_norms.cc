#include "libs/elastic/torch/gradient_norms.h"

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "ATen/ATen.h"
#include "absl/types/span.h"
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

std::optional<AdamMoments> MomentsOf(const torch::optim::OptimizerParamState* state) {
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

bool IsPlain(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.is_contiguous() && !tensor.is_sparse() &&
         (tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble);
}

// For what the kernels cannot read: a copy that they can.
at::Tensor Plain(const at::Tensor& tensor) {
  if (IsPlain(tensor)) return tensor;
  const at::ScalarType type = tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return (tensor.is_sparse() ? tensor.to_dense() : tensor).to(at::kCPU, type).contiguous();
}

template <typename T>
absl::Span<T> SpanOf(const at::Tensor& tensor) {
  return {tensor.data_ptr<std::remove_const_t<T>>(), static_cast<size_t>(tensor.numel())};
}

// Calls body(T()) with the tensor's number type.
template <typename Body>
auto WithType(const at::Tensor& tensor, const Body& body) {
  return tensor.scalar_type() == at::kDouble ? body(double()) : body(float());
}

}  // namespace

bool IsAdam(const torch::optim::Optimizer& optimizer) {
  return dynamic_cast<const torch::optim::Adam*>(&optimizer) != nullptr ||
         dynamic_cast<const torch::optim::AdamW*>(&optimizer) != nullptr;
}

GradientNorms::GradientNorms(torch::optim::Optimizer* optimizer, bool precondition,
                             std::vector<at::Tensor> parameters, std::vector<int> groups)
    : optimizer_(optimizer),
      precondition_(precondition),
      parameters_(std::move(parameters)),
      groups_(std::move(groups)),
      moments_(parameters_.size()) {}

void GradientNorms::BeginStep() {
  if (!precondition_) return;
  moments_.assign(parameters_.size(), {});
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& group = optimizer_->param_groups()[static_cast<size_t>(groups_[i])];
    const std::optional<AdamSettings> settings = SettingsOf(group.options());
    const std::optional<AdamMoments> adam = MomentsOf(StateOf(*optimizer_, parameters_[i]));
    if (!settings || !adam) continue;
    const auto preconditioner = device::AdamPreconditioner(adam->step, settings->beta2, settings->eps);
    if (preconditioner) moments_[i] = {Plain(adam->exp_avg_sq), *preconditioner};
  }
}

double GradientNorms::Squared(size_t i, const at::Tensor& gradient) const {
  const at::Tensor plain = Plain(gradient);
  const Moments& moments = moments_[i];
  return WithType(plain, [&](auto zero) {
    using T = decltype(zero);
    if (!moments.exp_avg_sq.defined()) return device::SquaredNorm<T>(SpanOf<const T>(plain));
    return device::SquaredNorm<T>(SpanOf<const T>(plain), SpanOf<const T>(moments.exp_avg_sq),
                                  moments.preconditioner);
  });
}

double GradientNorms::SquaredThenScale(size_t i, double factor, at::Tensor* gradient) const {
  if (!IsPlain(*gradient)) {
    const double sqr = Squared(i, *gradient);
    gradient->mul_(factor);
    return sqr;
  }
  const Moments& moments = moments_[i];
  const double scaled = WithType(*gradient, [&](auto zero) {
    using T = decltype(zero);
    device::GradientPass<T> pass{.gradient = SpanOf<T>(*gradient), .factor = factor};
    if (moments.exp_avg_sq.defined()) {
      pass.exp_avg_sq = SpanOf<const T>(moments.exp_avg_sq);
      pass.preconditioner = moments.preconditioner;
    }
    return device::Process<T>(pass).current;
  });
  return scaled / (factor * factor);
}

double GradientNorms::SquaredThenScaleTo(size_t i, double factor, const at::Tensor& gradient,
                                         at::Tensor* to) const {
  if (gradient.is_same(*to) || gradient.data_ptr() == to->data_ptr()) return SquaredThenScale(i, factor, to);
  if (!IsPlain(gradient) || !IsPlain(*to) || gradient.scalar_type() != to->scalar_type()) {
    const double sqr = Squared(i, gradient);
    to->copy_(gradient);
    to->mul_(factor);
    return sqr;
  }
  const Moments& moments = moments_[i];
  const double scaled = WithType(gradient, [&](auto zero) {
    using T = decltype(zero);
    device::GradientPass<T> pass{.gradient = SpanOf<T>(gradient), .factor = factor, .scaled = SpanOf<T>(*to)};
    if (moments.exp_avg_sq.defined()) {
      pass.exp_avg_sq = SpanOf<const T>(moments.exp_avg_sq);
      pass.preconditioner = moments.preconditioner;
    }
    return device::Process<T>(pass).current;
  });
  return scaled / (factor * factor);
}

device::PairSums GradientNorms::Compare(size_t i, const at::Tensor& previous,
                                        const at::Tensor& current) const {
  const at::Tensor plain = Plain(current);
  const at::Tensor before = Plain(previous).to(plain.scalar_type());
  const Moments& moments = moments_[i];
  return WithType(plain, [&](auto zero) {
    using T = decltype(zero);
    device::GradientPass<T> pass{.gradient = SpanOf<T>(plain), .previous = SpanOf<T>(before)};
    if (moments.exp_avg_sq.defined()) {
      pass.exp_avg_sq = SpanOf<const T>(moments.exp_avg_sq);
      pass.preconditioner = moments.preconditioner;
    }
    return device::Process<T>(pass);
  });
}

}  // namespace adaptdl::elastic
