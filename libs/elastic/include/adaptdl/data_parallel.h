// Trains one model on all replicas of a job:
//
//   adaptdl::AdaptiveDataParallel parallel(*job, *model, optimizer);
//   for (auto& batch : loader) {
//     optimizer.zero_grad();
//     loss_of(batch).backward();
//     parallel.Step();                  // instead of optimizer.step()
//   }
//
// At construction the model and the optimiser are restored from the job's checkpoint, if there is one, and
// made the same on all replicas. Step() averages the gradients over the replicas, each weighted by its number
// of samples, so that the step is the one that a single replica would take with the whole batch; then it runs
// the optimiser. A step is taken on all replicas or on none. The loss must be a mean over the samples of the
// batch.
//
// Gradients are exchanged after the backward pass, in buckets, so that packing one overlaps with sending
// another. Buffers (such as running means) are made the same at the start only; checkpoints hold those of
// rank 0.
//
// Thread-safety: the training thread only. Job, model and optimiser must outlive it.

#ifndef ADAPTDL_DATA_PARALLEL_H_
#define ADAPTDL_DATA_PARALLEL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "adaptdl/job.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace adaptdl {

struct DataParallelOptions {
  // Distinguishes several models of one job in its checkpoints.
  std::string name = "adaptdl";
  // Gradients are exchanged in buckets of about this many bytes.
  int64_t bucket_bytes = int64_t{4} << 20;
};

class AdaptiveDataParallel {
 public:
  AdaptiveDataParallel(Job& job, torch::nn::Module& model, torch::optim::Optimizer& optimizer,
                       const DataParallelOptions& options = {});
  ~AdaptiveDataParallel();
  AdaptiveDataParallel(const AdaptiveDataParallel&) = delete;
  AdaptiveDataParallel& operator=(const AdaptiveDataParallel&) = delete;

  // Collective. Ends the process when a peer is lost.
  void Step();

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace adaptdl

#endif  // ADAPTDL_DATA_PARALLEL_H_
