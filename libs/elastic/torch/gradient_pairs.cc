#include "libs/elastic/torch/gradient_pairs.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "ATen/ATen.h"

namespace adaptdl::elastic {
namespace {

// A few numbers spread over the tensor. Elsewhere than in main memory reading them would wait for the device.
template <size_t kCount>
std::array<double, kCount> Probe(const at::Tensor& tensor) {
  std::array<double, kCount> probes = {};
  if (!tensor.device().is_cpu() || !tensor.is_contiguous() || tensor.numel() == 0) return probes;
  for (size_t k = 0; k < kCount; ++k) {
    const int64_t at = (tensor.numel() - 1) * static_cast<int64_t>(k) / static_cast<int64_t>(kCount - 1);
    if (tensor.scalar_type() == at::kFloat) probes[k] = tensor.data_ptr<float>()[at];
    if (tensor.scalar_type() == at::kDouble) probes[k] = tensor.data_ptr<double>()[at];
  }
  return probes;
}

}  // namespace

GradientPairs::Kept::Kept(at::Tensor tensor)
    : gradient(std::move(tensor)),
      version(static_cast<uint32_t>(gradient._version())),
      probes(Probe<kProbes>(gradient)) {}

bool GradientPairs::Kept::IsIntact() const {
  if (!gradient.defined()) return true;
  if (gradient._version() != version) return false;
  const std::array<double, kProbes> now = Probe<kProbes>(gradient);
  // By their bytes, so that NaN is equal to itself.
  return std::memcmp(now.data(), probes.data(), sizeof now) == 0;
}

GradientPairs::GradientPairs(const GradientNorms* norms, std::vector<int> groups, int num_groups)
    : norms_(norms), groups_(std::move(groups)), num_groups_(num_groups) {}

bool GradientPairs::HasPrevious() {
  previous_ = std::exchange(current_, {});
  const bool intact =
      std::all_of(previous_.begin(), previous_.end(), [](const Kept& kept) { return kept.IsIntact(); });
  if (intact) return !previous_.empty();
  copying_ = true;
  previous_.clear();
  return false;
}

void GradientPairs::BeginStep(bool compare, bool keep, double scale) {
  compare_ = compare;
  keep_ = keep;
  if (keep_) current_.resize(groups_.size());
  if (compare_) {
    const std::vector<double> zeros(static_cast<size_t>(num_groups_), 0);
    pair_ = {zeros, zeros, zeros, scale_};
    seen_.assign(groups_.size(), false);
  } else {
    previous_.clear();
  }
  scale_ = scale;
}

void GradientPairs::Add(size_t i, const at::Tensor& gradient) {
  if (compare_) {
    seen_[i] = true;
    // What one of the two steps lacks is 0 there.
    if (previous_[i].gradient.defined()) {
      Compare(i, previous_[i].gradient, gradient);
    } else {
      pair_.current_sqr[static_cast<size_t>(groups_[i])] += norms_->Squared(i, gradient);
    }
  }
  if (keep_) {
    current_[i] = Kept(copying_ ? gradient.clone() : gradient);
  }
}

void GradientPairs::Compare(size_t i, const at::Tensor& previous, const at::Tensor& current) {
  const auto group = static_cast<size_t>(groups_[i]);
  const device::PairSums sums = norms_->Compare(i, previous, current);
  pair_.current_sqr[group] += sums.current;
  pair_.previous_sqr[group] += sums.previous;
  pair_.dot[group] += sums.dot;
}

std::optional<GradientPair> GradientPairs::EndStep() {
  if (!compare_) return std::nullopt;
  compare_ = false;
  for (size_t i = 0; i < previous_.size(); ++i) {
    const at::Tensor& previous = previous_[i].gradient;
    if (!seen_[i] && previous.defined()) {
      pair_.previous_sqr[static_cast<size_t>(groups_[i])] += norms_->Squared(i, previous);
    }
  }
  previous_.clear();
  return pair_;
}

}  // namespace adaptdl::elastic
