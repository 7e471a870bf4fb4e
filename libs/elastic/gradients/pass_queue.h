// Passes over tensors that are run together: a GPU likes one launch for many. A CPU runs each at once, while its
// tensor is in the cache.
//
// Tensors must stay where they are until Flush().
//
// Thread-safety: one thread at a time.

#ifndef ADAPTDL_LIBS_ELASTIC_GRADIENTS_PASS_QUEUE_H_
#define ADAPTDL_LIBS_ELASTIC_GRADIENTS_PASS_QUEUE_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "libs/device/device.h"
#include "libs/device/tensor_pass.h"

namespace adaptdl::elastic {

class PassQueue {
 public:
  // Not owned.
  explicit PassQueue(device::Device* device) : device_(device) {}

  // What TensorPass::sum counts in, from now on.
  void SetSums(double* sums) { sums_ = sums; }

  // The tensors are ready where `stream` is now.
  absl::Status Add(const device::TensorPass& pass, device::Stream stream);
  // What is put on `stream` from now on finds them all done.
  absl::Status Flush(device::Stream stream);
  // Forgets what waits.
  void Drop() { passes_.clear(); }

 private:
  absl::Status MoveTo(device::Stream stream);

  device::Device* const device_;
  double* sums_ = nullptr;
  std::vector<device::TensorPass> passes_;
  // Where all that waits is ready.
  device::Stream stream_ = nullptr;
  std::unique_ptr<device::Event> moved_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_GRADIENTS_PASS_QUEUE_H_
