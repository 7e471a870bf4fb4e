#include "libs/elastic/torch/gradient_hooks.h"

#include <memory>
#include <utility>
#include <vector>

#include "ATen/ATen.h"
#include "torch/csrc/autograd/engine.h"
#include "torch/csrc/autograd/function.h"
#include "torch/csrc/autograd/utils/lambda_post_hook.h"
#include "torch/csrc/autograd/variable.h"
#include "torch/utils.h"

namespace adaptdl::elastic {
namespace {

// A counted pointer; of what kind depends on the version of LibTorch.
using GradAccumulator = decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

}  // namespace

class GradientHooks::Impl : public std::enable_shared_from_this<GradientHooks::Impl> {
 public:
  Impl(GradientExchange* exchange, TorchTensors* tensors) : exchange_(exchange), tensors_(tensors) {}

  void Attach() {
    for (size_t i = 0; i < tensors_->parameters().size(); ++i) {
      const at::Tensor& parameter = tensors_->parameters()[i];
      // Only what requires gradients takes hooks; what is frozen keeps them, for when it does not stay so.
      const bool frozen = !parameter.requires_grad();
      if (frozen) parameter.set_requires_grad(true);
      AttachTo(i, parameter);
      if (frozen) parameter.set_requires_grad(false);
    }
  }

 private:
  void AttachTo(size_t i, const at::Tensor& parameter) {
    using torch::autograd::variable_list;
    using torch::autograd::utils::LambdaPostHook;
    // The hooks belong to the parameter, which may outlive this object.
    const std::weak_ptr<Impl> weak = weak_from_this();
    parameter.register_hook([weak, i](const at::Tensor& gradient) {
      const std::shared_ptr<Impl> self = weak.lock();
      return self ? self->OnPassGradient(i, gradient) : at::Tensor();
    });
    accumulators_.push_back(torch::autograd::impl::grad_accumulator(parameter));
    accumulators_.back()->add_post_hook(
        std::make_unique<LambdaPostHook>([weak, i](const variable_list& outputs, const variable_list&) {
          if (const std::shared_ptr<Impl> self = weak.lock()) self->OnGradientReady(i);
          return outputs;
        }));
  }

  // Undefined: the gradient stays as it is.
  at::Tensor OnPassGradient(size_t i, const at::Tensor& gradient) {
    torch::NoGradGuard no_gradients;
    if (exchange_->BeginPass()) {
      torch::autograd::Engine::get_default_engine().queue_callback([weak = weak_from_this()] {
        torch::NoGradGuard no_gradients;
        if (const std::shared_ptr<Impl> self = weak.lock()) self->exchange_->EndPass();
      });
    }
    // A sparse one is refused when it is complete.
    if (!exchange_->looks_at_passes() || gradient.layout() != at::kStrided) return {};
    at::Tensor copy;
    return exchange_->OnPassGradient(i, tensors_->Describe(i, gradient, &copy)) ? at::Tensor()
                                                                                : at::zeros_like(gradient);
  }

  void OnGradientReady(size_t i) {
    torch::NoGradGuard no_gradients;
    exchange_->OnGradientReady(i);
  }

  GradientExchange* const exchange_;
  TorchTensors* const tensors_;
  // Parameters hold them weakly.
  std::vector<GradAccumulator> accumulators_;
};

GradientHooks::GradientHooks(GradientExchange* exchange, TorchTensors* tensors)
    : impl_(std::make_shared<Impl>(exchange, tensors)) {
  impl_->Attach();
}

GradientHooks::~GradientHooks() = default;

}  // namespace adaptdl::elastic
