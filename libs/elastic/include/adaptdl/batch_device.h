// How a batch gets to the device that trains on it. To a GPU its tensors go from pinned memory: the copy is put on the
// current stream, ahead of the kernels that read it, and the program does not wait for it.
//
// Thread-safety: Pin() any thread; ToDevice() the one that trains.

#ifndef ADAPTDL_BATCH_DEVICE_H_
#define ADAPTDL_BATCH_DEVICE_H_

#include <ranges>
#include <type_traits>

#include "ATen/core/Tensor.h"
#include "c10/core/Device.h"

namespace adaptdl {

// In memory that `device` copies from while the program goes on; the same tensor where that makes no difference.
at::Tensor Pin(const at::Tensor& tensor, const c10::Device& device);
// Does not wait for a copy out of such memory.
at::Tensor ToDevice(const at::Tensor& tensor, const c10::Device& device);

// Whether ForEachTensor() knows where tensors are in a batch of this type: a tensor; what has `data`, and perhaps
// `target`, such as torch::data::Example; a container of these.
template <typename Batch>
constexpr bool HasKnownTensors() {
  constexpr bool kHasData = requires(Batch & batch) { batch.data.defined(); };
  if constexpr (!kHasData && std::ranges::range<Batch>) {
    return HasKnownTensors<std::ranges::range_value_t<Batch>>();
  } else {
    return kHasData || std::is_same_v<Batch, at::Tensor>;
  }
}

// Replaces each tensor of `batch` by what `function` makes of it.
template <typename Batch, typename Function>
void ForEachTensor(Batch& batch, const Function& function) {
  if constexpr (std::is_same_v<Batch, at::Tensor>) {
    batch = function(batch);
  } else if constexpr (requires { batch.data.defined(); }) {
    batch.data = function(batch.data);
    if constexpr (requires { batch.target.defined(); }) batch.target = function(batch.target);
  } else {
    for (auto& each : batch) ForEachTensor(each, function);
  }
}

}  // namespace adaptdl

#endif  // ADAPTDL_BATCH_DEVICE_H_
