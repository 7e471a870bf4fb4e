// The kernels, compiled once for each set of vector instructions: gradient_kernels.cc for those that every
// machine has, gradient_kernels_avx2.cc for AVX2 with FMA. Uses nothing of the standard library, whose inline
// functions would be compiled for AVX2 and then shared with the rest of the program.
//
// Why all give the same bits: element i always goes to lane i mod 16 of 16 partial sums in double precision,
// which are added in a fixed order; multiplications and additions are fused only where that
// changes nothing; conversions, divisions and
// roots are exact to the last bit by IEEE 754.

#ifndef ADAPTDL_LIBS_DEVICE_GRADIENT_KERNELS_INL_H_
#define ADAPTDL_LIBS_DEVICE_GRADIENT_KERNELS_INL_H_

#include <cstddef>

#ifdef __FMA__
#include <immintrin.h>
#endif

namespace adaptdl::device::kernels {

// A pass as plain pointers; null: not wanted.
template <typename T>
struct Operands {
  const T* gradient = nullptr;
  size_t size = 0;
  // Where the scaled gradient goes. May be `gradient`.
  T* scaled = nullptr;
  double factor = 1;
  const T* previous = nullptr;
  T* kept = nullptr;
  const T* exp_avg_sq = nullptr;
  double root_factor = 1;
  double epsilon = 0;
};

// current, previous, dot.
struct Sums {
  double numbers[3] = {0, 0, 0};
};

Sums RunBaseline(const Operands<float>& operands);
Sums RunBaseline(const Operands<double>& operands);
// Only where SupportsAvx2().
Sums RunAvx2(const Operands<float>& operands);
Sums RunAvx2(const Operands<double>& operands);
bool SupportsAvx2();

namespace {

// Elements handled at a time, so that what one loop leaves for the next is in the first-level cache. A
// multiple of kLanes.
constexpr size_t kBlock = 1024;
constexpr size_t kLanes = 16;

using Doubles = double __attribute__((vector_size(32)));
using Floats = float __attribute__((vector_size(16)));

inline void LoadFour(const float* from, Doubles* to) {
  Floats floats;
  __builtin_memcpy(&floats, from, sizeof floats);
  *to = __builtin_convertvector(floats, Doubles);
}
inline void LoadFour(const double* from, Doubles* to) { __builtin_memcpy(to, from, sizeof *to); }

// sum += a * b, where a and b are numbers of type T. Products of two float32 are exact in double precision,
// so fusing changes nothing then.
template <typename T>
inline void MultiplyAdd(const Doubles& a, const Doubles& b, Doubles* sum) {
#ifdef __FMA__
  if constexpr (sizeof(T) == sizeof(float)) {
    *sum = _mm256_fmadd_pd(a, b, *sum);
    return;
  }
#endif
  *sum += a * b;
}

// Sixteen partial sums, by name so that they stay in registers.
struct Lanes {
  Doubles a = {0, 0, 0, 0};
  Doubles b = {0, 0, 0, 0};
  Doubles c = {0, 0, 0, 0};
  Doubles d = {0, 0, 0, 0};

  double Sum() const {
    const Doubles sum = (a + b) + (c + d);
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
  }
};

template <typename T>
inline void AddSquares(const T* x, size_t size, Lanes* lanes) {
  Lanes sums = *lanes;
  for (size_t i = 0; i < size; i += kLanes) {
    Doubles a;
    Doubles b;
    Doubles c;
    Doubles d;
    LoadFour(x + i, &a);
    LoadFour(x + i + 4, &b);
    LoadFour(x + i + 8, &c);
    LoadFour(x + i + 12, &d);
    MultiplyAdd<T>(a, a, &sums.a);
    MultiplyAdd<T>(b, b, &sums.b);
    MultiplyAdd<T>(c, c, &sums.c);
    MultiplyAdd<T>(d, d, &sums.d);
  }
  *lanes = sums;
}

template <typename T>
inline void AddPair(const T* x, const T* y, Doubles* current, Doubles* previous, Doubles* dot) {
  Doubles a;
  Doubles b;
  LoadFour(x, &a);
  LoadFour(y, &b);
  MultiplyAdd<T>(a, a, current);
  MultiplyAdd<T>(b, b, previous);
  MultiplyAdd<T>(a, b, dot);
}

// Squares of both and products, in `lanes` 0 to 2.
template <typename T>
inline void AddPairs(const T* x, const T* y, size_t size, Lanes* lanes) {
  Lanes current = lanes[0];
  Lanes previous = lanes[1];
  Lanes dot = lanes[2];
  for (size_t i = 0; i < size; i += kLanes) {
    AddPair(x + i, y + i, &current.a, &previous.a, &dot.a);
    AddPair(x + i + 4, y + i + 4, &current.b, &previous.b, &dot.b);
    AddPair(x + i + 8, y + i + 8, &current.c, &previous.c, &dot.c);
    AddPair(x + i + 12, y + i + 12, &current.d, &previous.d, &dot.d);
  }
  lanes[0] = current;
  lanes[1] = previous;
  lanes[2] = dot;
}

inline float Root(float x) { return __builtin_sqrtf(x); }
inline double Root(double x) { return __builtin_sqrt(x); }

// In T, as Adam computes it.
template <typename T>
inline void Precondition(const T* __restrict x, const T* __restrict exp_avg_sq, const Operands<T>& operands,
                         size_t size, T* __restrict to) {
  const T root_factor = static_cast<T>(operands.root_factor);
  const T epsilon = static_cast<T>(operands.epsilon);
  for (size_t i = 0; i < size; ++i) to[i] = x[i] / (Root(exp_avg_sq[i]) * root_factor + epsilon);
}

// Fills up the last lanes, so that the sums see whole groups of them.
template <typename T>
inline const T* Padded(const T* x, size_t size, T* buffer) {
  if (size % kLanes == 0) return x;
  if (x != buffer) __builtin_memcpy(buffer, x, size * sizeof(T));
  const size_t end = (size / kLanes + 1) * kLanes;
  for (size_t i = size; i < end; ++i) buffer[i] = 0;
  return buffer;
}

template <typename T>
inline void RunBlock(const Operands<T>& operands, size_t at, size_t size, Lanes* sums) {
  // Only read after they are written.
  T x_buffer[kBlock];
  T y_buffer[kBlock];
  const T* gradient = operands.gradient + at;
  if (operands.scaled != nullptr) {
    T* scaled = operands.scaled + at;
    const double factor = operands.factor;
    for (size_t i = 0; i < size; ++i) scaled[i] = static_cast<T>(static_cast<double>(gradient[i]) * factor);
    gradient = scaled;
  }
  const T* x = gradient;
  const T* y = operands.previous != nullptr ? operands.previous + at : nullptr;
  if (operands.exp_avg_sq != nullptr) {
    Precondition(x, operands.exp_avg_sq + at, operands, size, x_buffer);
    x = x_buffer;
    if (y != nullptr) {
      Precondition(y, operands.exp_avg_sq + at, operands, size, y_buffer);
      y = y_buffer;
    }
  }
  x = Padded(x, size, x_buffer);
  if (y != nullptr) {
    AddPairs(x, Padded(y, size, y_buffer), size, sums);
  } else {
    AddSquares(x, size, sums);
  }
  if (operands.kept != nullptr) __builtin_memcpy(operands.kept + at, gradient, size * sizeof(T));
}

template <typename T>
inline Sums Run(const Operands<T>& operands) {
  Lanes lanes[3];
  for (size_t at = 0; at < operands.size; at += kBlock) {
    const size_t left = operands.size - at;
    RunBlock(operands, at, left < kBlock ? left : kBlock, lanes);
  }
  Sums sums;
  for (int i = 0; i < 3; ++i) sums.numbers[i] = lanes[i].Sum();
  return sums;
}

}  // namespace
}  // namespace adaptdl::device::kernels

#endif  // ADAPTDL_LIBS_DEVICE_GRADIENT_KERNELS_INL_H_
