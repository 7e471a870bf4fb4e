// The flat pieces of memory in which the gradients of a step travel between replicas, on the device of the
// model.
//
//   slot() is filled ──MarkPacked()──▶ bucket is full ──SendNext()──▶ on its way ──Receive()──▶ the sums
//
// Buckets are filled and sent backwards, as gradients come out of a backward pass, in the same order on all
// replicas. Behind the gradients of the last one lie the model's buffers, and the tail, a few numbers.
//
// Each bucket has one type. Gradients in a half type are reduced in float32, or in their own type where that is
// asked; buffers and tail never lie in a bucket of halves.
//
// Thread-safety: one thread at a time.

#ifndef ADAPTDL_LIBS_ELASTIC_GRADIENTS_GRADIENT_BUCKETS_H_
#define ADAPTDL_LIBS_ELASTIC_GRADIENTS_GRADIENT_BUCKETS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/comm/communicator.h"
#include "libs/device/device.h"
#include "libs/elastic/gradients/bucket_reserve.h"
#include "libs/elastic/gradients/model_tensors.h"
#include "libs/elastic/gradients/tensor_ref.h"

namespace adaptdl::elastic {

class GradientBuckets {
 public:
  struct Options {
    // Of a bucket, about.
    int64_t bytes = int64_t{4} << 20;
    bool reduce_halves_as_they_are = false;
    // Where buckets get their memory, and what they leave there is given back. Not owned; null: from the device.
    BucketReserve* reserve = nullptr;
  };

  // The bytes that the buckets of a model will have, or a few more, for those of its parameters that are trained
  // now.
  static std::vector<int64_t> SizesFor(ModelTensors* model, const Options& options);

  // None is owned. `communicator` takes buffers on `device`.
  GradientBuckets(comm::Communicator* communicator, device::Device* device, ModelTensors* model,
                  const Options& options)
      : communicator_(communicator), device_(device), model_(model), options_(options) {}

  bool empty() const { return buckets_.empty(); }
  // Only without anything on its way.
  void Clear();
  // For the parameters that are trained, and a tail of so many numbers. Only of an empty one.
  absl::Status Make(const std::vector<bool>& trained, int64_t tail_size, device::Stream stream);

  // Where the gradient of parameter `i` is packed. SlotIsGradient(): it can be the parameter's own afterwards.
  const TensorRef& slot(size_t i) const { return slots_[i].tensor; }
  bool SlotIsGradient(size_t i) const;
  const TensorRef& buffer(size_t b) const { return buffers_[b]; }
  const TensorRef& tail() const { return tail_; }

  void MarkPacked(size_t i) { --buckets_[slots_[i].bucket].missing; }
  // Whether the next one to be sent is full; the first; the last.
  bool next_is_full() const { return sent_ < buckets_.size() && buckets_[sent_].missing == 0; }
  bool next_is_first() const { return sent_ == 0; }
  bool next_is_last() const { return sent_ + 1 == buckets_.size(); }
  // Sends it, as it is on `stream` then.
  void SendNext(device::Stream stream);

  size_t size() const { return buckets_.size(); }
  bool was_sent(size_t k) const { return k < sent_; }
  // The parameters in bucket `k`.
  const std::vector<size_t>& parameters(size_t k) const { return buckets_[k].parameters; }
  // What is put on `stream` from now on finds the sums in bucket `k`, once Finish() has said so. On a device
  // that works behind the caller's back this waits for nothing that the device does.
  absl::Status Receive(size_t k, device::Stream stream);
  // All have been received, and are known to be there: whether they are right. To be called even where
  // Receive() has failed.
  absl::Status Finish();

  // The step is over.
  void Reset();

 private:
  // Gradients that travel together.
  struct Bucket {
    device::DataType type = device::DataType::kFloat32;
    std::vector<size_t> parameters = {};
    std::shared_ptr<device::Memory> memory = {};
    int64_t count = 0;
    // Parameters that are not packed yet in this step.
    size_t missing = 0;
    std::unique_ptr<comm::Work> work = {};
    // What the host knows of it already.
    absl::Status status = {};
  };
  struct Slot {
    size_t bucket = 0;
    TensorRef tensor = {};
  };

  static device::DataType TypeOf(const ModelTensors::Parameter& parameter, const Options& options);
  static std::vector<Bucket> Deal(const ModelTensors::Layout& layout, const std::vector<bool>& trained,
                                  const Options& options);
  absl::Status LayOut(Bucket* bucket, bool is_last, int64_t tail_size, device::Stream stream);

  comm::Communicator* const communicator_;
  device::Device* const device_;
  ModelTensors* const model_;
  const Options options_;
  std::vector<Bucket> buckets_;
  std::vector<Slot> slots_;
  // Both in the last bucket.
  std::vector<TensorRef> buffers_;
  TensorRef tail_;
  size_t sent_ = 0;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_GRADIENTS_GRADIENT_BUCKETS_H_
