#include "adaptdl/autocast.h"

#include <stdexcept>

#include "ATen/autocast_mode.h"
#include "absl/strings/str_cat.h"
#include "torch/version.h"

namespace adaptdl {
namespace {

c10::DeviceType Checked(c10::DeviceType device) {
  if (device == c10::DeviceType::CPU || device == c10::DeviceType::CUDA) return device;
  throw std::invalid_argument(absl::StrCat("Autocast is for the CPU and for CUDA, not for ",
                                           c10::DeviceTypeName(device, /*lower_case=*/true)));
}

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
bool IsEnabled(c10::DeviceType device) { return at::autocast::is_autocast_enabled(device); }
void SetEnabled(c10::DeviceType device, bool enabled) { at::autocast::set_autocast_enabled(device, enabled); }
c10::ScalarType TypeOf(c10::DeviceType device) { return at::autocast::get_autocast_dtype(device); }
void SetType(c10::DeviceType device, c10::ScalarType type) { at::autocast::set_autocast_dtype(device, type); }
#else
// Each device has functions of its own.
bool IsEnabled(c10::DeviceType device) {
  return device == c10::DeviceType::CPU ? at::autocast::is_cpu_enabled() : at::autocast::is_enabled();
}
void SetEnabled(c10::DeviceType device, bool enabled) {
  device == c10::DeviceType::CPU ? at::autocast::set_cpu_enabled(enabled)
                                 : at::autocast::set_enabled(enabled);
}
c10::ScalarType TypeOf(c10::DeviceType device) {
  return device == c10::DeviceType::CPU ? at::autocast::get_autocast_cpu_dtype()
                                        : at::autocast::get_autocast_gpu_dtype();
}
void SetType(c10::DeviceType device, c10::ScalarType type) {
  device == c10::DeviceType::CPU ? at::autocast::set_autocast_cpu_dtype(type)
                                 : at::autocast::set_autocast_gpu_dtype(type);
}
#endif

}  // namespace

Autocast::Autocast(c10::DeviceType device, c10::ScalarType type, bool enabled)
    : device_(Checked(device)), enabled_before_(IsEnabled(device)), type_before_(TypeOf(device)) {
  SetType(device_, type);
  SetEnabled(device_, enabled);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  // The parameters' short copies are kept while a block lasts; the optimiser changes them after it.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  SetEnabled(device_, enabled_before_);
  SetType(device_, type_before_);
}

}  // namespace adaptdl
