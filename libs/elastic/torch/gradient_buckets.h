// The flat pieces of main memory in which the gradients of a step travel between replicas.
//
//   slot() is filled ──MarkPacked()──▶ bucket is full ──Launch()──▶ on its way ──Await()──▶ Unpack()
//
// Buckets are filled and sent backwards, as gradients come out of a backward pass, in the same order on all
// replicas. Behind the gradients travel numbers: by parameter, how many replicas have a gradient; by
// parameter group, the local squared norm. Last come the model's buffers with the weight that they have, the
// number of micro-batches with samples, and the signals.
//
// Thread-safety: one thread at a time.

#ifndef ADAPTDL_LIBS_ELASTIC_TORCH_GRADIENT_BUCKETS_H_
#define ADAPTDL_LIBS_ELASTIC_TORCH_GRADIENT_BUCKETS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "libs/comm/communicator.h"

namespace adaptdl::elastic {

class GradientBuckets {
 public:
  // None is owned. `groups`: the parameter group of each parameter. `bytes`: of a bucket, about.
  GradientBuckets(comm::Communicator* communicator, const std::vector<at::Tensor>* parameters,
                  const std::vector<int>* groups, const std::vector<at::Tensor>* buffers, int64_t bytes)
      : communicator_(communicator),
        parameters_(parameters),
        groups_(groups),
        buffers_(buffers),
        bytes_(bytes) {}

  bool empty() const { return buckets_.empty(); }
  void Clear() { buckets_.clear(); }
  // For the parameters that are trained, and so many signals. Only of an empty one.
  void Make(const std::vector<bool>& trained, size_t num_signals);

  // Where the gradient of parameter `i` is packed: shares the bucket's memory, in the parameter's shape.
  at::Tensor& slot(size_t i) { return slots_[i].view; }
  void MarkPacked(size_t i) { --buckets_[slots_[i].bucket].missing; }

  // What a replica says of its gradients.
  struct Local {
    // By parameter. 0: it has no gradient.
    const std::vector<double>* units = nullptr;
    const std::vector<double>* local_sqr = nullptr;
    // Of its last micro-batch, and so of its buffers.
    double weight = 1;
    int64_t sampled_passes = 0;
    // Called when the last bucket is sent.
    const std::function<std::vector<double>()>* signals = nullptr;
  };
  // Sends the buckets that are full and next. `on_sent`: called before the first.
  void Launch(const Local& local, const std::function<void()>& on_sent);

  // Waits for all of them.
  absl::Status Await();

  // What came of it.
  struct Sums {
    // By parameter group: is added to.
    std::vector<double> local_sqr;
    int64_t micro_batches = 0;
    std::vector<double> signals;
  };
  // Hands out the averages, and gives the buffers theirs. `average`: in a slot; null: no replica has a
  // gradient.
  void Unpack(const std::function<void(size_t i, const at::Tensor* average)>& take, Sums* sums);

  // The step is over.
  void Reset();

 private:
  // Gradients that travel together.
  struct Bucket {
    at::ScalarType type = at::kFloat;
    // Parameters, as numbers, in the order of their gradients in `flat`; and the groups of these.
    std::vector<size_t> parameters;
    std::vector<int> groups;
    at::Tensor flat;
    int64_t extras_begin = 0;
    // Parameters that are not packed yet in this step.
    size_t missing = 0;
    std::unique_ptr<comm::Work> work;
  };
  struct Slot {
    size_t bucket = 0;
    at::Tensor view;
  };

  void LayOut(Bucket* bucket, bool is_last, size_t num_signals);
  int64_t SizeOf(const Bucket& bucket) const;
  std::vector<double> ExtrasOf(const Bucket& bucket, const Local& local) const;
  void PackBuffers(double weight);
  void UnpackOne(const Bucket& bucket, const std::function<void(size_t i, const at::Tensor* average)>& take,
                 Sums* sums);

  comm::Communicator* const communicator_;
  const std::vector<at::Tensor>* const parameters_;
  const std::vector<int>* const groups_;
  const std::vector<at::Tensor>* const buffers_;
  const int64_t bytes_;
  std::vector<Bucket> buckets_;
  std::vector<Slot> slots_;
  // Of buffers_, in the last bucket.
  std::vector<at::Tensor> buffer_views_;
  size_t launched_ = 0;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_TORCH_GRADIENT_BUCKETS_H_
