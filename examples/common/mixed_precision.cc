#include "examples/common/mixed_precision.h"

#include <string>

#include "ATen/core/Tensor.h"
#include "examples/common/report.h"

namespace examples {
namespace {

c10::ScalarType TypeOf(const std::string& precision) {
  if (precision == "bf16") return c10::kBFloat16;
  if (precision == "fp16") return c10::kHalf;
  return c10::kFloat;
}

}  // namespace

MixedPrecision::MixedPrecision(const Options& options, const c10::Device& device)
    : device_(device.type()), type_(TypeOf(options.precision)) {
  if (type_ != c10::kHalf) return;
  if (device.is_cpu()) Fail("--precision fp16 needs a GPU; give bf16 on a CPU");
  scaler_.emplace();
}

adaptdl::Autocast MixedPrecision::ForwardPass() const {
  // What is not enabled must be given a type all the same.
  const bool enabled = type_ != c10::kFloat;
  return adaptdl::Autocast(device_, enabled ? type_ : c10::kBFloat16, enabled);
}

at::Tensor MixedPrecision::Scaled(const at::Tensor& loss) const {
  return scaler_ ? scaler_->Scale(loss) : loss;
}

}  // namespace examples
