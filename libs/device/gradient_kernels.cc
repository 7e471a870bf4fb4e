#include "libs/device/gradient_kernels.h"

#include <cassert>
#include <cmath>
#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "libs/device/gradient_kernels_inl.h"

namespace adaptdl::device {
namespace kernels {

Sums RunBaseline(const Operands<float>& operands) { return Run(operands); }
Sums RunBaseline(const Operands<double>& operands) { return Run(operands); }

#ifdef ADAPTDL_AVX2_KERNELS
bool SupportsAvx2() {
  static const bool supported = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return supported;
}
#else
bool SupportsAvx2() { return false; }
Sums RunAvx2(const Operands<float>& operands) { return Run(operands); }
Sums RunAvx2(const Operands<double>& operands) { return Run(operands); }
#endif

}  // namespace kernels

namespace {

// Second moments of fewer steps say too little.
constexpr int64_t kFirstPreconditionedStep = 5;

template <typename T>
PairSums Dispatch(const kernels::Operands<T>& operands) {
  const kernels::Sums sums =
      kernels::SupportsAvx2() ? kernels::RunAvx2(operands) : kernels::RunBaseline(operands);
  return {sums.numbers[0], sums.numbers[1], sums.numbers[2]};
}

}  // namespace

std::optional<Preconditioner> AdamPreconditioner(int64_t step, double beta2, double epsilon) {
  if (step < kFirstPreconditionedStep) return std::nullopt;
  return Preconditioner{1 / std::sqrt(1 - std::pow(beta2, static_cast<double>(step))), epsilon};
}

template <typename T>
double SquaredNorm(absl::Span<const T> gradient) {
  return Dispatch<T>({.gradient = gradient.data(), .size = gradient.size()}).current;
}

template <typename T>
double SquaredNorm(absl::Span<const T> gradient, absl::Span<const T> exp_avg_sq,
                   const Preconditioner& preconditioner) {
  assert(exp_avg_sq.size() == gradient.size());
  return Dispatch<T>({.gradient = gradient.data(),
                      .size = gradient.size(),
                      .exp_avg_sq = exp_avg_sq.data(),
                      .root_factor = preconditioner.root_factor,
                      .epsilon = preconditioner.epsilon})
      .current;
}

template <typename T>
PairSums Process(const GradientPass<T>& pass) {
  const bool has_previous = !pass.previous.empty();
  assert(!has_previous || pass.previous.size() == pass.gradient.size());
  assert(pass.exp_avg_sq.empty() || pass.exp_avg_sq.size() == pass.gradient.size());
  assert(pass.scaled.empty() || pass.scaled.size() == pass.gradient.size());
  T* const in_place = pass.factor != 1 ? pass.gradient.data() : nullptr;
  return Dispatch<T>({.gradient = pass.gradient.data(),
                      .size = pass.gradient.size(),
                      .scaled = pass.scaled.empty() ? in_place : pass.scaled.data(),
                      .factor = pass.factor,
                      .previous = has_previous && pass.compare ? pass.previous.data() : nullptr,
                      .kept = has_previous && pass.keep ? pass.previous.data() : nullptr,
                      .exp_avg_sq = pass.exp_avg_sq.empty() ? nullptr : pass.exp_avg_sq.data(),
                      .root_factor = pass.preconditioner.root_factor,
                      .epsilon = pass.preconditioner.epsilon});
}

template double SquaredNorm(absl::Span<const float>);
template double SquaredNorm(absl::Span<const double>);
template double SquaredNorm(absl::Span<const float>, absl::Span<const float>, const Preconditioner&);
template double SquaredNorm(absl::Span<const double>, absl::Span<const double>, const Preconditioner&);
template PairSums Process(const GradientPass<float>&);
template PairSums Process(const GradientPass<double>&);

}  // namespace adaptdl::device
