// Tells a gradient exchange what LibTorch's backward passes do, by hooks on the parameters.
//
// Thread-safety: as GradientExchange.

#ifndef ADAPTDL_LIBS_ELASTIC_TORCH_GRADIENT_HOOKS_H_
#define ADAPTDL_LIBS_ELASTIC_TORCH_GRADIENT_HOOKS_H_

#include <memory>

#include "libs/elastic/gradients/gradient_exchange.h"
#include "libs/elastic/torch/torch_tensors.h"

namespace adaptdl::elastic {

class GradientHooks {
 public:
  // Neither is owned.
  GradientHooks(GradientExchange* exchange, TorchTensors* tensors);
  // The hooks stay with the parameters, and do nothing from then on.
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

 private:
  class Impl;
  // Shared with the hooks, which live as long as the parameters.
  const std::shared_ptr<Impl> impl_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_TORCH_GRADIENT_HOOKS_H_
