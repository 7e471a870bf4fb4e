#include "libs/device/tensor_pass.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "libs/device/gradient_kernels.h"
#include "libs/device/half.h"

namespace adaptdl::device {
namespace {

// Elements that are converted at a time, so that they stay in the first-level cache.
constexpr int64_t kBlock = 1024;

const char* Advance(const void* data, DataType type, int64_t count) {
  return static_cast<const char*>(data) + count * ElementSize(type);
}
char* Advance(void* data, DataType type, int64_t count) {
  return static_cast<char*>(data) + count * ElementSize(type);
}

// --- Any type, by way of one that the kernels have ---

template <typename T>
void LoadAs(const void* from, DataType type, int64_t count, T* to) {
  switch (type) {
    case DataType::kFloat64:
      std::transform(static_cast<const double*>(from), static_cast<const double*>(from) + count, to,
                     [](double x) { return static_cast<T>(x); });
      return;
    case DataType::kFloat16:
      std::transform(static_cast<const Float16*>(from), static_cast<const Float16*>(from) + count, to,
                     [](Float16 x) { return static_cast<T>(ToFloat(x)); });
      return;
    case DataType::kBFloat16:
      std::transform(static_cast<const BFloat16*>(from), static_cast<const BFloat16*>(from) + count, to,
                     [](BFloat16 x) { return static_cast<T>(ToFloat(x)); });
      return;
    default:
      std::transform(static_cast<const float*>(from), static_cast<const float*>(from) + count, to,
                     [](float x) { return static_cast<T>(x); });
  }
}

template <typename T>
void StoreFrom(const T* from, int64_t count, void* to, DataType type) {
  switch (type) {
    case DataType::kFloat64:
      std::transform(from, from + count, static_cast<double*>(to),
                     [](T x) { return static_cast<double>(x); });
      return;
    case DataType::kFloat16:
      std::transform(from, from + count, static_cast<Float16*>(to),
                     [](T x) { return ToFloat16(static_cast<float>(x)); });
      return;
    case DataType::kBFloat16:
      std::transform(from, from + count, static_cast<BFloat16*>(to),
                     [](T x) { return ToBFloat16(static_cast<float>(x)); });
      return;
    default:
      std::transform(from, from + count, static_cast<float*>(to), [](T x) { return static_cast<float>(x); });
  }
}

template <typename T>
PairSums RunConverted(const TensorPass& pass) {
  PairSums sums;
  T source[kBlock];
  T previous[kBlock];
  T moments[kBlock];
  for (int64_t at = 0; at < pass.count; at += kBlock) {
    const int64_t count = std::min(kBlock, pass.count - at);
    const auto size = static_cast<size_t>(count);
    LoadAs(Advance(pass.source, pass.type, at), pass.type, count, source);
    GradientPass<T> block{.gradient = {source, size}, .factor = pass.factor};
    if (pass.previous != nullptr) {
      LoadAs(Advance(pass.previous, pass.type, at), pass.type, count, previous);
      block.previous = {previous, size};
    }
    if (pass.exp_avg_sq != nullptr) {
      LoadAs(Advance(pass.exp_avg_sq, pass.exp_avg_sq_type, at), pass.exp_avg_sq_type, count, moments);
      block.exp_avg_sq = {moments, size};
      block.preconditioner = pass.preconditioner;
    }
    sums += Process(block);
    if (pass.target != nullptr) {
      StoreFrom(source, count, Advance(pass.target, pass.target_type, at), pass.target_type);
    }
    if (pass.kept != nullptr) StoreFrom(source, count, Advance(pass.kept, pass.type, at), pass.type);
  }
  return sums;
}

// --- The types that the kernels have ---

template <typename T>
void Scale(const T* from, int64_t count, double factor, T* to) {
  if (factor == 1) {
    if (from != to) std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
    return;
  }
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(static_cast<double>(from[i]) * factor);
}

template <typename T>
PairSums RunDirectly(const TensorPass& pass) {
  const auto size = static_cast<size_t>(pass.count);
  auto* const source = static_cast<const T*>(pass.source);
  auto* const target = static_cast<T*>(pass.target);
  if (pass.sum < 0 && pass.kept == nullptr) {
    if (target != nullptr) Scale(source, pass.count, pass.factor, target);
    return {};
  }
  // What the kernel only reads.
  const auto writable = [size](const void* data) {
    return absl::Span<T>(static_cast<T*>(const_cast<void*>(data)), data == nullptr ? 0 : size);
  };
  GradientPass<T> gradient{.gradient = writable(source), .factor = pass.factor};
  if (target != source) gradient.scaled = writable(target);
  gradient.previous = writable(pass.previous);
  gradient.keep = pass.kept != nullptr;
  if (pass.exp_avg_sq != nullptr) {
    gradient.exp_avg_sq = writable(pass.exp_avg_sq);
    gradient.preconditioner = pass.preconditioner;
  }
  return Process(gradient);
}

// Whether no conversion is needed, and what the kernels do is what is asked.
bool IsDirect(const TensorPass& pass) {
  if (pass.type != DataType::kFloat32 && pass.type != DataType::kFloat64) return false;
  if (pass.target != nullptr && pass.target_type != pass.type) return false;
  if (pass.exp_avg_sq != nullptr && pass.exp_avg_sq_type != pass.type) return false;
  // They scale in place where there is no target, and keep only over what they compare with.
  if (pass.target == nullptr && pass.factor != 1) return false;
  return pass.kept == nullptr || pass.kept == pass.previous;
}

bool IsDouble(const TensorPass& pass) {
  return pass.type == DataType::kFloat64 ||
         (pass.target != nullptr && pass.target_type == DataType::kFloat64) ||
         (pass.exp_avg_sq != nullptr && pass.exp_avg_sq_type == DataType::kFloat64);
}

void SetToZero(void* data, DataType type, int64_t count) {
  if (data != nullptr) std::memset(data, 0, static_cast<size_t>(count * ElementSize(type)));
}

PairSums RunOne(const TensorPass& pass) {
  if (IsDirect(pass)) {
    return pass.type == DataType::kFloat64 ? RunDirectly<double>(pass) : RunDirectly<float>(pass);
  }
  return IsDouble(pass) ? RunConverted<double>(pass) : RunConverted<float>(pass);
}

// The product is zero: all that is left of the sums is the square of what it is compared with.
PairSums RunZero(const TensorPass& pass) {
  PairSums sums;
  if (pass.previous != nullptr && pass.sum >= 0) {
    TensorPass previous = pass;
    previous.source = pass.previous;
    previous.previous = nullptr;
    previous.factor = 1;
    previous.target = nullptr;
    previous.kept = nullptr;
    sums.previous = RunOne(previous).current;
  }
  SetToZero(pass.target, pass.target_type, pass.count);
  SetToZero(pass.kept, pass.type, pass.count);
  return sums;
}

}  // namespace

void RunOnCpu(absl::Span<const TensorPass> passes, double* sums) {
  for (const TensorPass& pass : passes) {
    const PairSums sum = pass.factor == 0 ? RunZero(pass) : RunOne(pass);
    if (pass.sum < 0) continue;
    sums[pass.sum] += pass.weight * sum.current;
    if (pass.previous == nullptr) continue;
    sums[pass.sum + 1] += pass.weight * sum.previous;
    sums[pass.sum + 2] += pass.weight * sum.dot;
  }
}

}  // namespace adaptdl::device
