// The one operation of the training library's kernels: reads a tensor once, and does everything to it that
// a step of training needs then: scales it to where it is to go, converts it, keeps a copy for the next
// step, and sums its squares. Gradients, parameters and tables of numbers all go through it.
//
//   product = factor * source
//   target  = product, in its own type
//   kept    = product
//   sums   += weight * (|product / p|^2, |previous / p|^2, product . previous / p^2)
//
// with p of Adam's preconditioner, or 1. Sums are in double precision, in an order that depends on nothing but
// the tensor's size: replicas that sum the same numbers on devices of one kind get the same bits.

#ifndef ADAPTDL_LIBS_DEVICE_TENSOR_PASS_H_
#define ADAPTDL_LIBS_DEVICE_TENSOR_PASS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "libs/device/data_type.h"
#include "libs/device/preconditioner.h"

namespace adaptdl::device {

// Pointers are to memory of the device that runs it, contiguous, aligned as their types want. Floating-point
// types only. Arrays may be the same, but must not overlap otherwise.
struct TensorPass {
  const void* source = nullptr;
  DataType type = DataType::kFloat32;
  int64_t count = 0;
  // 0: the product is 0 whatever `source` holds, even NaN; it is not read.
  double factor = 1;
  // Null: none. May be `source`.
  void* target = nullptr;
  DataType target_type = DataType::kFloat32;
  // A tensor of the same type to compare with. Null: none.
  const void* previous = nullptr;
  // A copy of the product, of the same type. Null: none. May be `previous`, which is read before.
  void* kept = nullptr;
  // Second moments, as many. Null: p = 1.
  const void* exp_avg_sq = nullptr;
  DataType exp_avg_sq_type = DataType::kFloat32;
  Preconditioner preconditioner = {};
  // Which number the sum is added to; with `previous` the next two too. Negative: none.
  int64_t sum = -1;
  double weight = 1;
};

// On the CPU, in main memory. `sums`: what TensorPass::sum counts in.
void RunOnCpu(absl::Span<const TensorPass> passes, double* sums);

}  // namespace adaptdl::device

#endif  // ADAPTDL_LIBS_DEVICE_TENSOR_PASS_H_
