#include "libs/elastic/gradients/gradient_pairs.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace adaptdl::elastic {

using device::ElementSize;
using device::TensorPass;

GradientPairs::GradientPairs(device::Device* device, ModelTensors* model, const StepNumbers* numbers)
    : device_(device),
      model_(model),
      numbers_(numbers),
      copying_(device->asynchronous()),
      copies_(model->layout().parameters.size()) {}

// A few numbers spread over the tensor, by their bytes, so that NaN is equal to itself.
GradientPairs::Kept::Probes GradientPairs::Probe(const TensorRef& tensor) {
  Kept::Probes probes = {};
  if (tensor.count == 0) return probes;
  const int64_t size = ElementSize(tensor.type);
  for (size_t k = 0; k < Kept::kProbes; ++k) {
    const int64_t at = (tensor.count - 1) * static_cast<int64_t>(k) / static_cast<int64_t>(Kept::kProbes - 1);
    std::memcpy(&probes[k], static_cast<const char*>(tensor.data) + at * size, static_cast<size_t>(size));
  }
  return probes;
}

bool GradientPairs::Kept::IsIntact() const {
  return held == nullptr || (held->version() == version && Probe(*tensor) == probes);
}

bool GradientPairs::HasPrevious() {
  previous_ = std::exchange(current_, {});
  const bool intact =
      std::all_of(previous_.begin(), previous_.end(), [](const Kept& kept) { return kept.IsIntact(); });
  if (intact) return !previous_.empty();
  copying_ = true;
  previous_.clear();
  return false;
}

void GradientPairs::BeginStep(bool compare, bool keep) {
  compare_ = compare;
  keep_ = keep;
  const size_t parameters = copies_.size();
  if (keep_) current_.resize(parameters);
  if (compare_) {
    seen_.assign(parameters, false);
  } else {
    previous_.clear();
  }
}

void GradientPairs::Forget() {
  previous_.clear();
  current_.clear();
  compare_ = keep_ = false;
}

absl::Status GradientPairs::Extend(size_t i, TensorPass* pass) {
  if (compare_) {
    seen_[i] = true;
    pass->sum = numbers_->pair(model_->layout().parameters[i].group);
    // What one of the two steps lacks is 0 there.
    if (previous_[i].tensor) pass->previous = previous_[i].tensor->data;
  }
  if (!keep_ || !copying_) return absl::OkStatus();
  const absl::StatusOr<TensorRef> copy = CopyOf(i, *pass);
  if (!copy.ok()) return copy.status();
  pass->kept = copy->data;
  current_[i].tensor = *copy;
  return absl::OkStatus();
}

void GradientPairs::Keep(size_t i) {
  if (!keep_ || copying_) return;
  Kept& kept = current_[i];
  kept.held = model_->HoldGradient(i);
  kept.tensor = kept.held->tensor();
  kept.version = kept.held->version();
  kept.probes = Probe(*kept.tensor);
}

absl::StatusOr<TensorRef> GradientPairs::CopyOf(size_t i, const TensorPass& pass) {
  const int64_t bytes = pass.count * ElementSize(pass.type);
  if (copies_[i].bytes() < bytes) {
    absl::StatusOr<device::Memory> memory = device_->Allocate(bytes);
    if (!memory.ok()) return memory.status();
    copies_[i] = *std::move(memory);
  }
  return TensorRef{copies_[i].data(), pass.count, pass.type};
}

absl::Status GradientPairs::EndStep(PassQueue* passes, device::Stream stream) {
  if (!std::exchange(compare_, false)) return absl::OkStatus();
  const std::vector<Kept> previous = std::exchange(previous_, {});
  for (size_t i = 0; i < previous.size(); ++i) {
    if (seen_[i] || !previous[i].tensor) continue;
    TensorPass pass = PassOver(*previous[i].tensor, model_->MomentsOf(i));
    pass.sum = numbers_->pair(model_->layout().parameters[i].group) + 1;
    if (absl::Status status = passes->Add(pass, stream); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace adaptdl::elastic
