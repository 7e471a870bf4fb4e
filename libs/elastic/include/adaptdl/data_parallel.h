// Trains one model on all replicas of a job:
//
//   adaptdl::AdaptiveDataParallel parallel(*job, *model, optimizer);
//   for (auto& batch : loader) {
//     parallel.ZeroGrad();              // instead of optimizer.zero_grad()
//     loss_of(batch).backward();
//     parallel.Step();                  // instead of optimizer.step()
//   }
//
// At construction the model and the optimiser are restored from the job's checkpoint, if there is one, and
// made the same on all replicas. The backward pass averages the gradients over the replicas and over the
// micro-batches of the step, each weighted by its number of samples, so that the step is the one that a
// single replica would take with the whole batch; when backward() of the last micro-batch returns, grad()
// holds these averages and may be clipped. Step() runs the optimiser then, and does nothing after the other
// micro-batches; ZeroGrad() does nothing between them. A step is taken on all replicas or on none. The loss
// must be a mean over the samples of the batch.
//
// For the step the learning rate of each parameter group is multiplied by the scaling rule's factor, by how
// much larger the total batch is than the initial one. Between steps it is the program's own, for schedules
// to set.
//
// Several models of one job have a wrapper each, with names of their own; the first one made is the one whose
// gradients tell the job's progress and what batch size suits it.
//
// Floating-point buffers (such as running means) are averaged over the replicas in each step, by their
// samples. Parameters that no replica used in a step have no gradient.
//
// Thread-safety: the training thread only. Job, model and optimiser must outlive it.

#ifndef ADAPTDL_DATA_PARALLEL_H_
#define ADAPTDL_DATA_PARALLEL_H_

#include <cstdint>
#include <memory>
#include <string>

#include "adaptdl/grad_scaler.h"
#include "adaptdl/job.h"
#include "adaptdl/scaling_rule.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace adaptdl {

class TensorBoardWriter;

struct DataParallelOptions {
  // Distinguishes several models of one job in its checkpoints.
  std::string name = "adaptdl";
  // Gradients are exchanged in buckets of about this many bytes.
  int64_t bucket_bytes = int64_t{4} << 20;
  // Whether buckets are sent during the backward pass, or all at its end.
  bool overlap = true;
  // Gradients in float16 and bfloat16 are averaged in float32, or, with half the bytes to send, in their own
  // type.
  bool reduce_halves_as_they_are = false;
  // How the learning rate follows the batch size. None: AdamScale for Adam and AdamW, else AdaScale.
  std::shared_ptr<ScalingRule> scaling_rule = nullptr;
  // For mixed precision; must outlive the wrapper. None: losses are not scaled.
  GradScaler* grad_scaler = nullptr;
  // Gradient statistics are measured in one optimiser step of so many. At least 1. What is measured weighs as
  // much in their averages whatever it is; at 1 they are less noisy and cost more time.
  int statistics_period = 8;
  // What these averages keep of the past in a step of the initial batch size, in (0, 1). They tell of the last
  // 1 / (1 - x) such steps: a training of few steps wants less than this.
  double statistics_smoothing = 0.999;
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

  // Makes all gradients undefined, which is faster than zeroing them.
  void ZeroGrad();

  // Steps at the initial batch size that the last step was worth, in [1, scale].
  double Gain() const;
  // Factor on the learning rate in the last step, averaged over the parameter groups.
  double LearningRateFactor() const;
  // Estimates at the initial batch size: squared norm of the true gradient, trace of its covariance.
  double SqrAvg() const;
  double VarAvg() const;
  // Steps at the initial batch size that all steps so far were worth.
  double Progress() const;

  // Gradient_Norm_Sqr, Gradient_Variance, Gain, Learning_Rate_Factor, Accum_Scale, Accum_Count and Progress,
  // as tags that begin with `prefix`: the estimates above; a micro-batch of all replicas by the initial batch
  // size; micro-batches of the last step.
  void ToTensorBoard(TensorBoardWriter& writer, int64_t step, const std::string& prefix = "") const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace adaptdl

#endif  // ADAPTDL_DATA_PARALLEL_H_
