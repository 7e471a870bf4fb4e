// What a thread of the kernels does. Compiled for GPUs, and for CPUs too, where tests compare it with the
// CPU's own kernels.
//
// Why the same numbers give the same bits: neighbours of kVector go to the same thread, those of the next
// kVector to the next thread, whatever the tensor's type or alignment; a thread adds its elements in order,
// and the sums of threads, of chunks and of passes are each added in a fixed order.

#ifndef ADAPTDL_LIBS_DEVICE_CUDA_PASS_CHUNK_H_
#define ADAPTDL_LIBS_DEVICE_CUDA_PASS_CHUNK_H_

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "libs/device/cuda/pass_batch.h"
#include "libs/device/data_type.h"
#include "libs/device/half.h"
#include "libs/device/tensor_pass.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace adaptdl::device::cuda {

// current, previous, dot: as PairSums, without the constructor, which shared memory cannot have.
struct Sums {
  double numbers[3];
};

ADAPTDL_HOST_DEVICE inline void Add(const Sums& other, Sums* sums) {
  for (int i = 0; i < 3; ++i) sums->numbers[i] += other.numbers[i];
}

// --- Numbers of any type ---

ADAPTDL_HOST_DEVICE inline float ToNumber(float x) { return x; }
ADAPTDL_HOST_DEVICE inline double ToNumber(double x) { return x; }
// GPUs have instructions for what half.h does; they round alike.
#ifdef __CUDA_ARCH__
__device__ inline float ToNumber(Float16 x) { return __half2float(__ushort_as_half(x.bits)); }
__device__ inline float ToNumber(BFloat16 x) { return __bfloat162float(__ushort_as_bfloat16(x.bits)); }
__device__ inline Float16 RoundToFloat16(float x) { return {__half_as_ushort(__float2half_rn(x))}; }
__device__ inline BFloat16 RoundToBFloat16(float x) { return {__bfloat16_as_ushort(__float2bfloat16_rn(x))}; }
#else
ADAPTDL_HOST_DEVICE inline float ToNumber(Float16 x) { return ToFloat(x); }
ADAPTDL_HOST_DEVICE inline float ToNumber(BFloat16 x) { return ToFloat(x); }
ADAPTDL_HOST_DEVICE inline Float16 RoundToFloat16(float x) { return ToFloat16(x); }
ADAPTDL_HOST_DEVICE inline BFloat16 RoundToBFloat16(float x) { return ToBFloat16(x); }
#endif

template <typename C>
ADAPTDL_HOST_DEVICE inline void RoundTo(C x, float* to) {
  *to = static_cast<float>(x);
}
template <typename C>
ADAPTDL_HOST_DEVICE inline void RoundTo(C x, double* to) {
  *to = static_cast<double>(x);
}
template <typename C>
ADAPTDL_HOST_DEVICE inline void RoundTo(C x, Float16* to) {
  *to = RoundToFloat16(static_cast<float>(x));
}
template <typename C>
ADAPTDL_HOST_DEVICE inline void RoundTo(C x, BFloat16* to) {
  *to = RoundToBFloat16(static_cast<float>(x));
}

// --- Reading and writing ---

// What one instruction reads or writes, or two of float64.
template <typename T>
struct alignas(sizeof(T) < sizeof(float) ? 8 : 16) Vector {
  T elements[kVector];
};

// So many vectors a thread holds of each operand: enough loads on their way to keep memory busy, and few
// enough registers to keep many threads on their way.
template <typename C>
constexpr int kVectors = 8 / sizeof(C);

// A thread's elements, in the type that it computes in: vector i is that of the i-th row from here.
template <typename C>
using Elements = C[kVectors<C>][kVector];

template <typename T, typename C>
ADAPTDL_HOST_DEVICE inline bool AreWhole(const void* data, int64_t at, int64_t end) {
  return reinterpret_cast<uintptr_t>(data) % alignof(Vector<T>) == 0 &&
         at + (kVectors<C> - 1) * kRow + kVector <= end;
}

// Element numbers `at` and on; beyond `end` there is `padding`.
template <typename T, typename C>
ADAPTDL_HOST_DEVICE inline void LoadFrom(const T* from, int64_t at, int64_t end, C padding, Elements<C>& to) {
  if (AreWhole<T, C>(from, at, end)) {
    Vector<T> vectors[kVectors<C>];
    for (int i = 0; i < kVectors<C>; ++i) {
      vectors[i] = *reinterpret_cast<const Vector<T>*>(from + at + i * kRow);
    }
    for (int i = 0; i < kVectors<C>; ++i) {
      for (int j = 0; j < kVector; ++j) to[i][j] = static_cast<C>(ToNumber(vectors[i].elements[j]));
    }
    return;
  }
  for (int i = 0; i < kVectors<C>; ++i) {
    for (int j = 0; j < kVector; ++j) {
      const int64_t index = at + i * kRow + j;
      to[i][j] = index < end ? static_cast<C>(ToNumber(from[index])) : padding;
    }
  }
}

template <typename C>
ADAPTDL_HOST_DEVICE inline void Load(const void* from, DataType type, int64_t at, int64_t end, C padding,
                                     Elements<C>& to) {
  switch (type) {
    case DataType::kFloat64:
      return LoadFrom(static_cast<const double*>(from), at, end, padding, to);
    case DataType::kFloat16:
      return LoadFrom(static_cast<const Float16*>(from), at, end, padding, to);
    case DataType::kBFloat16:
      return LoadFrom(static_cast<const BFloat16*>(from), at, end, padding, to);
    default:
      return LoadFrom(static_cast<const float*>(from), at, end, padding, to);
  }
}

template <typename T, typename C>
ADAPTDL_HOST_DEVICE inline void StoreTo(const Elements<C>& from, int64_t at, int64_t end, T* to) {
  if (AreWhole<T, C>(to, at, end)) {
    for (int i = 0; i < kVectors<C>; ++i) {
      Vector<T> vector;
      for (int j = 0; j < kVector; ++j) RoundTo(from[i][j], &vector.elements[j]);
      *reinterpret_cast<Vector<T>*>(to + at + i * kRow) = vector;
    }
    return;
  }
  for (int i = 0; i < kVectors<C>; ++i) {
    for (int j = 0; j < kVector; ++j) {
      const int64_t index = at + i * kRow + j;
      if (index < end) RoundTo(from[i][j], &to[index]);
    }
  }
}

template <typename C>
ADAPTDL_HOST_DEVICE inline void Store(const Elements<C>& from, int64_t at, int64_t end, void* to,
                                      DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return StoreTo<double, C>(from, at, end, static_cast<double*>(to));
    case DataType::kFloat16:
      return StoreTo<Float16, C>(from, at, end, static_cast<Float16*>(to));
    case DataType::kBFloat16:
      return StoreTo<BFloat16, C>(from, at, end, static_cast<BFloat16*>(to));
    default:
      return StoreTo<float, C>(from, at, end, static_cast<float*>(to));
  }
}

// --- Arithmetic ---

// As Adam computes it.
template <typename C>
ADAPTDL_HOST_DEVICE inline void Precondition(const Elements<C>& exp_avg_sq, const Preconditioner& by,
                                             Elements<C>& x) {
  const C root_factor = static_cast<C>(by.root_factor);
  const C epsilon = static_cast<C>(by.epsilon);
  for (int i = 0; i < kVectors<C>; ++i) {
    for (int j = 0; j < kVector; ++j) x[i][j] /= std::sqrt(exp_avg_sq[i][j]) * root_factor + epsilon;
  }
}

// In double precision, as squares of finite float32 need not be finite ones. A conversion and a fused
// multiplication for each element: GPUs for servers do both faster than they read memory. Others, which do 2 in a
// clock cycle and multiprocessor, keep up with float32, and take up to twice as long for sums of halves alone.
template <typename C>
ADAPTDL_HOST_DEVICE inline void AddProducts(const Elements<C>& x, const Elements<C>& y, double* sum) {
  for (int i = 0; i < kVectors<C>; ++i) {
    for (int j = 0; j < kVector; ++j) *sum += static_cast<double>(x[i][j]) * static_cast<double>(y[i][j]);
  }
}

// What a thread does of elements `begin` to `end`, in type C.
template <typename C>
ADAPTDL_HOST_DEVICE inline Sums ProcessIn(const TensorPass& pass, int64_t begin, int64_t end, int thread) {
  const bool zero = pass.factor == 0;
  const bool sums = pass.sum >= 0;
  const bool compares = sums && pass.previous != nullptr;
  const bool preconditions = sums && pass.exp_avg_sq != nullptr;
  const C factor = static_cast<C>(pass.factor);
  Sums sum = {};
  for (int64_t at = begin + thread * kVector; at < end; at += kVectors<C> * kRow) {
    Elements<C> x = {};
    Elements<C> y = {};
    Elements<C> moments = {};
    if (!zero) Load<C>(pass.source, pass.type, at, end, 0, x);
    if (compares) Load<C>(pass.previous, pass.type, at, end, 0, y);
    // Padding by which 0 can be divided.
    if (preconditions) Load<C>(pass.exp_avg_sq, pass.exp_avg_sq_type, at, end, 1, moments);
    for (int i = 0; i < kVectors<C>; ++i) {
      for (int j = 0; j < kVector; ++j) x[i][j] *= factor;
    }
    if (pass.target != nullptr) Store<C>(x, at, end, pass.target, pass.target_type);
    if (pass.kept != nullptr) Store<C>(x, at, end, pass.kept, pass.type);
    if (!sums) continue;
    if (preconditions) Precondition<C>(moments, pass.preconditioner, x);
    AddProducts<C>(x, x, &sum.numbers[0]);
    if (!compares) continue;
    if (preconditions) Precondition<C>(moments, pass.preconditioner, y);
    AddProducts<C>(y, y, &sum.numbers[1]);
    AddProducts<C>(x, y, &sum.numbers[2]);
  }
  // Even where it was compared with what is not finite.
  if (zero) sum.numbers[0] = sum.numbers[2] = 0;
  return sum;
}

// float32 does, unless one of the types or the factor wants more.
ADAPTDL_HOST_DEVICE inline bool NeedsDouble(const TensorPass& pass) {
  const double size = std::fabs(pass.factor);
  return pass.type == DataType::kFloat64 ||
         (pass.target != nullptr && pass.target_type == DataType::kFloat64) ||
         (pass.exp_avg_sq != nullptr && pass.exp_avg_sq_type == DataType::kFloat64) ||
         (size != 0 && !(size >= FLT_MIN && size <= FLT_MAX));
}

// --- The steps of the kernels ---

// The pass that a block works on.
ADAPTDL_HOST_DEVICE inline int PassOfBlock(const PassBatch& batch, int block) {
  int pass = 0;
  while (batch.first_block[pass + 1] <= block) ++pass;
  return pass;
}

// What a thread does of a block's chunk.
ADAPTDL_HOST_DEVICE inline Sums ProcessChunk(const PassBatch& batch, int block, int thread) {
  const int index = PassOfBlock(batch, block);
  const TensorPass& pass = batch.passes[index];
  const int64_t size = ChunkSize(pass.count);
  const int64_t begin = (block - batch.first_block[index]) * size;
  const int64_t end = begin + size < pass.count ? begin + size : pass.count;
  return NeedsDouble(pass) ? ProcessIn<double>(pass, begin, end, thread)
                           : ProcessIn<float>(pass, begin, end, thread);
}

// Threads that add the sums of one pass's chunks.
constexpr int kLanes = 32;

// What one of them adds.
ADAPTDL_HOST_DEVICE inline Sums SumOfLane(const PassBatch& batch, const Sums* of_blocks, int pass, int lane) {
  Sums sum = {};
  if (pass >= batch.size || batch.passes[pass].sum < 0) return sum;
  for (int block = batch.first_block[pass] + lane; block < batch.first_block[pass + 1]; block += kLanes) {
    Add(of_blocks[block], &sum);
  }
  return sum;
}

// Which of the caller's numbers number `which` of a pass's sum is added to. Negative: none.
ADAPTDL_HOST_DEVICE inline int64_t PlaceOf(const PassBatch& batch, int pass, int which) {
  const TensorPass& of = batch.passes[pass];
  if (of.sum < 0 || (which > 0 && of.previous == nullptr)) return -1;
  return of.sum + which;
}

// Adds to one of the caller's numbers what all passes have for it, in their order. `number` goes through all
// numbers of all passes; the first for a place does it for all. `of_passes`: every kLanes-th.
ADAPTDL_HOST_DEVICE inline void AddToPlace(const PassBatch& batch, const Sums* of_passes, int number,
                                           double* sums) {
  if (number >= 3 * batch.size) return;
  const int64_t place = PlaceOf(batch, number / 3, number % 3);
  if (place < 0) return;
  double sum = sums[place];
  for (int other = 0; other < 3 * batch.size; ++other) {
    if (PlaceOf(batch, other / 3, other % 3) != place) continue;
    if (other < number) return;
    sum += batch.passes[other / 3].weight * of_passes[int64_t{other / 3} * kLanes].numbers[other % 3];
  }
  sums[place] = sum;
}

}  // namespace adaptdl::device::cuda

#endif  // ADAPTDL_LIBS_DEVICE_CUDA_PASS_CHUNK_H_
