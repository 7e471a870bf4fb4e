// Averages the gradients of a model over all replicas and micro-batches of an optimiser step, while the
// backward pass computes them.
//
// Hooks on the parameters see each gradient as it becomes ready. In the last micro-batch of a step it is
// packed into a bucket, a flat tensor in main memory; a bucket that is full is sent at once (all-reduce), so
// that sending overlaps with the rest of the backward pass. When backward() returns, the parameters' grad()
// are the averages: a view into the bucket where shapes allow it. Buckets are sent in the same order on all
// replicas.
//
// Micro-batch r has the weight w_r: its part of the step's samples, so that sum w_r = 1 over all replicas and
// micro-batches, and the average is sum w_r g_r. On the way the squared norms that the gradient noise scale
// needs are taken (NoiseScale): each g_r is read once, and the norms travel in the bucket of their gradients.
// With a mean over unequal shares weighted so, sum w_r |g_r|^2 over the n micro-batches that have samples
// keeps the expectation |G|^2 + n tr(S) / B of equal ones.
//
// A gradient that no replica has stays undefined. A micro-batch without samples (weight 0) counts for
// nothing, whatever its gradients are.
//
// Failures (a lost peer, backward() called twice in one step) are kept and returned by TakeResult(); the
// gradients are unspecified then.
//
// Thread-safety: the training thread, and the thread that runs its backward pass.

#ifndef ADAPTDL_LIBS_ELASTIC_TORCH_GRADIENT_EXCHANGE_H_
#define ADAPTDL_LIBS_ELASTIC_TORCH_GRADIENT_EXCHANGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ATen/core/Tensor.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/comm/communicator.h"
#include "libs/elastic/gradients/noise_scale.h"
#include "libs/elastic/torch/gradient_norms.h"
#include "libs/elastic/torch/gradient_pairs.h"

namespace adaptdl::elastic {

// One forward and backward pass.
struct BackwardPass {
  // This micro-batch's part of the samples of its optimiser step.
  double weight = 1;
  // Whether the optimiser runs after it.
  bool last = true;
  // What the loss was multiplied by.
  double loss_scale = 1;
  // Whether the result is to say if the step's gradients overflowed.
  bool check_finite = false;
  // Total batch size divided by the initial one.
  double batch_scale = 1;
  // How often the step was begun anew: what an earlier attempt gathered is dropped.
  int attempt = 0;
  // Whether the step has come to nothing before this pass: its gradients are dropped, and nothing is
  // exchanged.
  bool is_void = false;
};

struct ExchangeResult {
  // Micro-batches that had samples, of all replicas.
  int64_t micro_batches = 0;
  // Whether all numbers of the average are finite. Always true where BackwardPass::check_finite did not ask.
  bool finite = true;
  // Whether the norms below were taken, which is the plan's affair alone. By parameter group, without the
  // loss scale: the sum over all micro-batches of w_r |g_r|^2 (not for one micro-batch), and |sum w_r g_r|^2.
  bool measured = false;
  std::vector<double> local_sqr;
  std::vector<double> total_sqr;
  // For one micro-batch, if the last step's gradients were compared with it.
  std::optional<GradientPair> pair;
  // Sums over the replicas.
  std::vector<double> signals;
  // Seconds between the end of the local backward pass and that of the exchange.
  double sync_time = 0;
};

class GradientExchange {
 public:
  struct Options {
    // Of a bucket, about.
    int64_t bucket_bytes = int64_t{4} << 20;
    // Whether buckets are sent during the backward pass, or all after it.
    bool overlap = true;
  };

  // What the exchange asks its owner.
  struct Callbacks {
    // At the first gradient of each pass.
    std::function<BackwardPass()> begin_pass;
    // At each gradient: the attempt in progress.
    std::function<int()> attempt;
    // The first gradients of a step are sent: it cannot be begun anew.
    std::function<void()> on_sent;
    // The step's exchange is complete on this replica: called before TakeResult() gives what came out. Or it
    // has failed.
    std::function<void(const absl::Status&)> on_exchanged;
    // At the first gradient of each step: what to measure. `count`: 1 if it is that of one micro-batch, else
    // more.
    std::function<NoiseScale::Plan(int64_t count, bool have_previous)> plan;
    // Numbers to be summed over the replicas with the gradients of the last pass: always as many.
    std::function<std::vector<double>()> signals;
    // Monotonic seconds.
    std::function<double()> seconds;
    // Around what waits for other replicas.
    std::function<void()> begin_wait;
    std::function<void()> end_wait;
  };

  // The model's tensors, each once.
  struct Tensors {
    // All that the optimiser has. Those that do not require gradients are left out of a step, and followed
    // once they do: what counts is how it is when the last backward pass of a step begins. The same on all
    // replicas.
    std::vector<at::Tensor> parameters;
    // Parameter group of each, in [0, num_groups).
    std::vector<int> groups;
    int num_groups = 1;
    // Floating-point buffers, such as running means: averaged over the replicas in each step, by their
    // samples.
    std::vector<at::Tensor> buffers;
  };

  // `communicator` and `norms` are not owned.
  GradientExchange(comm::Communicator* communicator, GradientNorms* norms, Tensors tensors,
                   const Options& options, Callbacks callbacks);
  ~GradientExchange();
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  // What the step's exchange gave, once per step. Without a backward pass since the last step it is made now,
  // without gradients.
  absl::StatusOr<ExchangeResult> TakeResult();

  // The communicator's group has changed. `keeps_result`: a result that was not taken stays. Else the step in
  // progress is dropped.
  void OnNewGroup(bool keeps_result);

  // Whether a step was dropped after its last backward pass, so that there is no result to take. Once.
  bool TakeDropped();

  // Makes all gradients undefined. Not to be called between the micro-batches of a step.
  void ClearGradients();

  // Whether a step is between two of its micro-batches.
  bool accumulating() const;

 private:
  class Impl;
  // Shared with the hooks, which live as long as the parameters.
  const std::shared_ptr<Impl> impl_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_TORCH_GRADIENT_EXCHANGE_H_
