// The few numbers of a step that lie beside its gradients: sums that the device adds up as it passes over
// gradients, and what replicas tell each other with them, the tail of their last bucket.
//
//   kernels ──▶ sums: total, pair, local │ outgoing ◀── Say()
//                                  ╰──── tail ────╯ ──all-reduce──▶ received
//   all of it ──Fetch()──▶ main memory
//
// One copy brings all of it to the host, and one wait says that it is there.
//
// Thread-safety: one thread at a time.

#ifndef ADAPTDL_LIBS_ELASTIC_GRADIENTS_STEP_NUMBERS_H_
#define ADAPTDL_LIBS_ELASTIC_GRADIENTS_STEP_NUMBERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "libs/device/device.h"
#include "libs/device/tensor_pass.h"
#include "libs/elastic/gradients/tensor_ref.h"

namespace adaptdl::elastic {

class StepNumbers {
 public:
  // Not owned. By parameter group there are a sum over local gradients, one over those of the whole step, and
  // the three of comparing it with the step before.
  StepNumbers(device::Device* device, int num_groups) : device_(device), groups_(num_groups) {}

  bool made() const { return device_memory_.data() != nullptr; }
  // For so many numbers that are told; once.
  absl::Status Make(int64_t num_told);

  // All sums become 0.
  absl::Status Begin(device::Stream stream);

  // For TensorPass::sum, of sums().
  double* sums() const { return static_cast<double*>(device_memory_.data()); }
  int64_t total(int group) const { return group; }
  // |current|^2, |previous|^2, current . previous.
  int64_t pair(int group) const { return groups_ + int64_t{3} * group; }
  int64_t local(int group) const { return int64_t{4} * groups_ + group; }

  // What is told: the local sums, then `told`, as many numbers as were announced. PutTail() is the pass that
  // writes them to `tail`, TakeTail() the one that reads what came of it.
  absl::Status Say(absl::Span<const double> told, device::Stream stream);
  int64_t num_told() const { return num_told_; }
  int64_t tail_size() const { return groups_ + num_told_; }
  device::TensorPass PutTail(const TensorRef& tail) const;
  device::TensorPass TakeTail(const TensorRef& tail) const;

  // Fetches all as it is on `stream` then; Await() ends when it is there.
  absl::Status Fetch(device::Stream stream);
  absl::Status Await() { return device_->Await(*fetched_); }

  // What was fetched.
  double Sum(int64_t index) const { return fetched_numbers()[index]; }
  double ReceivedLocal(int group) const { return fetched_numbers()[received_begin() + group]; }
  double Received(int64_t told) const { return fetched_numbers()[received_begin() + groups_ + told]; }

 private:
  int64_t num_sums() const { return 5 * groups_; }
  int64_t received_begin() const { return num_sums() + num_told_; }
  int64_t size() const { return received_begin() + tail_size(); }
  const double* fetched_numbers() const { return static_cast<const double*>(incoming_.data()); }

  device::Device* const device_;
  const int64_t groups_;
  int64_t num_told_ = 0;
  device::Memory device_memory_;
  // In main memory: what is told, and what was fetched.
  device::Memory outgoing_;
  device::Memory incoming_;
  std::unique_ptr<device::Event> fetched_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_GRADIENTS_STEP_NUMBERS_H_
