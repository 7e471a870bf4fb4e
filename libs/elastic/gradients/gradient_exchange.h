// Averages the gradients of a model over all replicas and micro-batches of an optimiser step, while the
// backward pass computes them. Knows tensors by where they lie (ModelTensors); a front end tells it what the
// backward pass does:
//
//   BeginPass() ── OnPassGradient(i), OnGradientReady(i), for each ── EndPass()      for each micro-batch
//   TakeResult()                                                                     once per step
//
// In the last micro-batch of a step each gradient that is ready is packed into a bucket, a flat tensor on the
// model's device; a bucket that is full is sent at once (all-reduce), so that sending overlaps with the rest of
// the backward pass. After EndPass() the parameters' gradients are the averages, as far as work on the model's
// stream goes: the slot of the bucket where types allow it. Buckets are sent in the same order on all replicas.
//
// Micro-batch r has the weight w_r: its part of the step's samples, so that sum w_r = 1 over all replicas and
// micro-batches, and the average is sum w_r g_r. On the way the squared norms that the gradient noise scale
// needs are taken (NoiseScale): each g_r is read once, and the norms travel with the gradients. With a mean
// over unequal shares weighted so, sum w_r |g_r|^2 over the n micro-batches that have samples keeps the
// expectation |G|^2 + n tr(S) / B of equal ones.
//
// A gradient that no replica has stays undefined. A micro-batch without samples (weight 0) counts for
// nothing, whatever its gradients are.
//
// The host waits for a device that works behind its back once in a step of several replicas: when all has been
// exchanged, so that a step is taken by all or by none. Alone it waits in the steps that are measured, or
// looked through for overflows. A few numbers are copied to the host in each of those; gradients never are.
//
// Failures (a lost peer, a second backward pass in one step) are kept and returned by TakeResult(); the
// gradients are unspecified then.
//
// Thread-safety: as ModelTensors.

#ifndef ADAPTDL_LIBS_ELASTIC_GRADIENTS_GRADIENT_EXCHANGE_H_
#define ADAPTDL_LIBS_ELASTIC_GRADIENTS_GRADIENT_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/comm/communicator.h"
#include "libs/device/device.h"
#include "libs/elastic/gradients/gradient_buckets.h"
#include "libs/elastic/gradients/gradient_pairs.h"
#include "libs/elastic/gradients/model_tensors.h"
#include "libs/elastic/gradients/noise_scale.h"
#include "libs/elastic/gradients/pass_queue.h"
#include "libs/elastic/gradients/step_numbers.h"
#include "libs/elastic/gradients/sync_timer.h"
#include "libs/elastic/gradients/tensor_ref.h"

namespace adaptdl::elastic {

// One forward and backward pass.
struct BackwardPass {
  // This micro-batch's part of the samples of its optimiser step.
  double weight = 1;
  // Whether the optimiser runs after it.
  bool last = true;
  // What the loss was multiplied by; and whether the averages stay multiplied, because the program divides them.
  double loss_scale = 1;
  bool keeps_loss_scale = false;
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

// By parameter group.
struct GradientPair {
  std::vector<double> current_sqr;
  std::vector<double> previous_sqr;
  std::vector<double> dot;
  // Total batch size of the older step over the initial one.
  double previous_scale = 1;
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
    GradientBuckets::Options buckets;
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

  // None is owned. `communicator` takes buffers on `device`, which is the model's.
  GradientExchange(comm::Communicator* communicator, device::Device* device, ModelTensors* model,
                   const Options& options, Callbacks callbacks);
  ~GradientExchange();
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  // --- From the backward pass ---

  // Before each gradient. True: it is the first one of a pass, whose end EndPass() is to tell of.
  bool BeginPass();
  // Whether OnPassGradient() wants to know; to be asked after BeginPass().
  bool looks_at_passes() const { return summing_ && !pass_.is_void; }
  // Whether it matters to the pass that has begun what the gradients are: alone, in a step that is not measured, nothing
  // is done to them, and nobody needs to say OnGradientReady().
  bool looks_at_gradients() const {
    const bool as_they_are = pass_.weight == Divisor() && !pass_.check_finite;
    const bool measures = plan_.norms || plan_.compare || plan_.keep;
    return !single() || summing_ || measures || !as_they_are;
  }
  // The gradient of this pass alone, before it is added to that of the parameter. False: it counts for nothing,
  // and zeros are to be added in its place.
  bool OnPassGradient(size_t i, const TensorRef& gradient);
  // The parameter's gradient holds the sum over the passes so far.
  void OnGradientReady(size_t i);
  void EndPass();
  // The pass that has begun is none: no gradient of it was told of. Only where it is the step's first and last.
  void AbandonPass();

  // --- From the training loop ---

  // What the step's exchange gave, once per step. Without a backward pass since the last step it is made now,
  // without gradients.
  absl::StatusOr<ExchangeResult> TakeResult();

  // For a group of several to come: whether nothing that takes long is left to be done for it. Begins to get memory
  // for buckets, if there are none, while the caller goes on.
  bool IsReadyForSeveral();

  // The communicator's group has changed. `keeps_result`: a result that was not taken stays. Else the step in
  // progress is dropped.
  void OnNewGroup(bool keeps_result);

  // Whether a step was dropped after its last backward pass, so that there is no result to take. Once.
  bool TakeDropped() { return std::exchange(dropped_, false); }

  // Makes all gradients undefined. Not to be called between the micro-batches of a step.
  void ClearGradients();

  // Whether a step's exchange is over, for good or ill, and TakeResult() has not told of it yet.
  bool has_result() const { return result_.has_value(); }

  // Whether a step is between two of its micro-batches.
  bool accumulating() const { return passes_ > 0 && !result_; }

  // Whether the failure that was told last is the program's or the device's, and not that of the exchange.
  bool failed_here() const { return failed_here_; }

 private:
  bool single() const { return communicator_->size() == 1; }
  const ModelTensors::Parameter& parameter(size_t i) const { return model_->layout().parameters[i]; }
  int num_groups() const { return model_->layout().num_groups; }
  // Keeps the first failure.
  bool Note(const absl::Status& status);
  bool Run(const device::TensorPass& pass) { return Note(passes_to_run_.Add(pass, model_->stream())); }
  bool RunNow(const device::TensorPass& pass);

  absl::Status Prepare();
  void AwaitDevice();
  void StartPass();
  void FollowFrozen();
  void DropAttempt();
  void BeginStep();
  void CheckUnchanged();
  uint64_t ProbedVersion();
  // What averages are divided by; and what squared norms of the averages are.
  double Divisor() const { return pass_.keeps_loss_scale ? 1 : pass_.loss_scale; }
  double NormDivisor() const { return pass_.keeps_loss_scale ? pass_.loss_scale * pass_.loss_scale : 1; }
  bool MeasuresMean() const { return plan_.norms && !plan_.compare; }

  void Complete(size_t i);
  void CompleteSingle(size_t i, const std::optional<TensorRef>& gradient);
  void Pack(size_t i, const std::optional<TensorRef>& gradient);
  void SendReady();
  void PackTail(device::Stream stream);

  absl::StatusOr<ExchangeResult> Finish();
  void FinishSingle(ExchangeResult* result);
  absl::Status FinishBuckets(ExchangeResult* result);
  absl::Status ReceiveBuckets();
  absl::Status MeasureBucket(size_t k, device::Stream stream);
  void ReadSums(ExchangeResult* result);
  void ReadTail(ExchangeResult* result);
  void HandOut(size_t i);
  void HandOutBuffers(double weight);
  void EndStep();

  comm::Communicator* const communicator_;
  device::Device* const device_;
  ModelTensors* const model_;
  const Options options_;
  const Callbacks callbacks_;
  StepNumbers numbers_;
  GradientPairs pairs_;
  PassQueue passes_to_run_;
  // Those over what was exchanged, on a stream of its own.
  PassQueue passes_after_;
  std::unique_ptr<device::OwnedStream> stream_after_;
  SyncTimer sync_timer_;

  // Parameters that require gradients. The buckets, if there are any, are made for these.
  std::vector<bool> trained_;
  GradientBuckets buckets_;

  // The pass in progress, or the last one.
  bool in_pass_ = false;
  BackwardPass pass_;
  NoiseScale::Plan plan_;

  // The step in progress.
  // Passes that ended, and passes begun that have samples.
  int passes_ = 0;
  int64_t sampled_passes_ = 0;
  // Whether it has several passes.
  bool summing_ = false;
  // The gradient of parameter i, times units_[i], is the weighted sum of its gradients. 0: it has none that
  // count.
  std::vector<double> units_;
  // Parameters that are complete.
  std::vector<bool> ready_;
  // BackwardPass::batch_scale of this step and of the one before.
  double scale_ = 0;
  double previous_scale_ = 0;
  // Version of the gradient of parameter probed_, the first that is trained, when the last pass ended.
  size_t probed_ = 0;
  uint64_t version_ = 0;
  absl::Status error_;
  bool failed_here_ = false;
  std::optional<absl::StatusOr<ExchangeResult>> result_;
  // Whether there was a result of the last step, and nobody has taken it.
  bool dropped_ = false;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_GRADIENTS_GRADIENT_EXCHANGE_H_
