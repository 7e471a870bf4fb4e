// Gradient statistics while training: how large the true gradient is and how noisy its estimates are, which
// tells what larger batches are worth.
//
// With a total batch of `scale` times the initial batch size B0, a gradient is the true one plus noise of
// covariance Sigma / scale, where Sigma is that at B0. Estimated are sqr = |true gradient|^2 and
// var = trace(Sigma), for each parameter group:
// - from n > 1 independent gradients g_i of equal batches and their mean g, with |.|^2 averaged over i:
//     sqr = (n |g|^2 - mean |g_i|^2) / (n - 1),  var = scale (mean |g_i|^2 - |g|^2) / (n - 1)
//   which are unbiased (McCandlish et al., "An Empirical Model of Large-Batch Training", 2018, appendix A;
//   Johnson et al., "AdaScale SGD", 2020, section 4);
// - from the gradients of two successive steps when there is only one per step (differenced; Pollux, OSDI'21,
//   section 3.1): the same with n = 2 and a mean of twice the batch, biased by what the model moved in
//   between.
// Averages are exponential, bias-corrected, with a horizon counted in batches of B0: each step decays the
// past by smoothing^scale. Single estimates may be negative and are averaged as they are; readers clip.
// Estimates of both kinds are averaged together, and the differenced ones are dropped with the first of the
// other kind; what was there of that kind before them stays. So a step that is made of one gradient because
// few samples were left for it costs nothing.
//
// Few estimates promise anything: their scatter is larger than their mean, and sqr near 0 says that a step of
// any size pays. And while steps are too large, gradients turn with each one: differenced estimates take that
// for noise, and sqr comes out below 0, which would make the steps larger still. What is made of the
// estimates for learning rates and progress (CertainAt()) therefore goes by how large the part of sqr in
// |g|^2 was, whatever its sign: the root of its mean square, each estimate counting alike, however large the
// gradients were. For two gradients in a row that part is the root of the cosine of the angle between them,
// as the step between has turned the second one, too.
//
// A training step goes
//
//   for each micro-batch: accumulation.Add(squared norms of its gradient, samples, loss scale);
//   plan = noise.PlanStep(count, have_previous);
//   average the gradient over micro-batches and replicas, sum accumulation.local_sqr() over replicas,
//   measure what the plan says (TensorPass);
//   if (noise.ScaleChanged(scale)) reset Adam's moments;
//   noise.Update(norms); optimiser step with the factors of a ScalingRule; noise.Advance(gain);
//
// and is deterministic: replicas that put in the same numbers hold the same state.
//
// Thread-safety: not thread-safe.

#ifndef ADAPTDL_LIBS_ELASTIC_GRADIENTS_NOISE_SCALE_H_
#define ADAPTDL_LIBS_ELASTIC_GRADIENTS_NOISE_SCALE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "nlohmann/json_fwd.hpp"

namespace adaptdl::elastic {

// The local gradients of the step in progress, of this replica. Not saved: a step that is cut off is taken
// again.
class Accumulation {
 public:
  explicit Accumulation(size_t groups) : local_sqr_(groups) {}

  // `batch_scale`: what one micro-batch of all replicas is of B0. True if that changes under micro-batches
  // already added, which are dropped: the caller then drops the gradients that it has accumulated.
  bool SetBatchScale(double batch_scale);

  // A micro-batch's gradient, before it is averaged over replicas. `sqr`: squared norm for each group, of the
  // gradient of the loss times `loss_scale`. `weight`: any measure of its size, such as its samples, if not
  // all have the same.
  void Add(absl::Span<const double> sqr, double weight = 1, double loss_scale = 1);

  // For the next step.
  void Reset();

  int64_t count() const { return count_; }
  // Sum of weights.
  double weight() const { return weight_; }
  // Sum of weight times squared norm, of the unscaled loss.
  const std::vector<double>& local_sqr() const { return local_sqr_; }
  // Of the step as far as it has come: total batch by B0.
  double scale() const { return batch_scale_ * static_cast<double>(count_); }

 private:
  double batch_scale_ = 0;
  int64_t count_ = 0;
  double weight_ = 0;
  std::vector<double> local_sqr_;
};

// What a step measured, summed over all replicas. Spans have one number for each group; a group without
// gradients has 0, and a parameter without one counts as a gradient of 0.
struct StepNorms {
  // Independent gradients that the mean is made of: micro-batches that have samples, over all replicas. >= 1.
  int64_t count = 1;
  // Total batch of the step by B0. > 0.
  double scale = 1;
  // For count > 1, of all replicas: sum of weight times squared norm of the unscaled loss, and sum of weights
  // (0: `count`). With weights in proportion to samples the estimates are unbiased for unequal micro-batches
  // too.
  absl::Span<const double> local_sqr = {};
  double local_weight = 0;
  // |g|^2 of the mean gradient g. Empty: this step was not measured.
  absl::Span<const double> total_sqr = {};
  // For count = 1: |g_prev|^2 and g . g_prev, with g_prev the gradient of the step before. Empty: there is
  // none.
  absl::Span<const double> previous_sqr = {};
  absl::Span<const double> previous_dot = {};
  // Scale of the step that g_prev is of, so that a change of the batch size in between leaves the estimates
  // unbiased. 0: the same as `scale`.
  double previous_scale = 0;
  // What the losses behind g and g_prev were multiplied by.
  double loss_scale = 1;
  double previous_loss_scale = 1;
};

struct NoiseScaleOptions {
  // Parameter groups. >= 1.
  size_t groups = 1;
  // Decay of the past per batch of B0. In (0, 1).
  double smoothing = 0.999;
  // Statistics are measured in one step of so many. >= 1. The horizon of the averages stays; they are
  // noisier.
  int64_t period = 1;
  // So many estimates are made in the first steps, one in each: batch sizes are chosen by them soon.
  int64_t first_estimates = 0;
};

class NoiseScale {
 public:
  explicit NoiseScale(const NoiseScaleOptions& options);

  // What to measure in the next step. A caller that keeps gradients drops them after a step of count > 1, and
  // after comparing without keeping.
  struct Plan {
    // Norms of the mean gradient and, for count > 1, of the local ones.
    bool norms = false;
    // Norm of the previous gradient and its product with the current one.
    bool compare = false;
    // Afterwards a copy of the mean gradient is to be kept as the previous one of the next step.
    bool keep = false;
  };
  Plan PlanStep(int64_t count, bool have_previous) const;

  // kSkipped: not measured, or nothing to compare with yet. kNotFinite: an overflow or NaN; the statistics
  // are unchanged, and the gradient should not be kept.
  enum class Outcome { kUpdated, kSkipped, kNotFinite };
  Outcome Update(const StepNorms& norms);

  // Takes note of a step's scale. True if it differs from that of the step before: Adam's moments are then of
  // gradients with another noise, and the reference sets them (and Adam's step count) to zero. False in the
  // first step of all.
  bool ScaleChanged(double scale);

  // An optimiser step was taken, and worth `gain` steps at B0.
  void Advance(double gain) { progress_ += gain; }

  // Steps at B0 that would have come as far as all steps so far: the unit of scale-invariant schedules.
  double progress() const { return progress_; }
  // Of the last step; 0: none yet.
  double prev_scale() const { return prev_scale_; }

  // Over all groups, each clipped: sqr at 0, var at 1e-6. What is reported for scheduling.
  double sqr_avg() const;
  double var_avg() const;
  // What sqr_avg() may be at most: the size of the mean, as a mean below 0 is off by at least that, and two
  // standard errors. These are of how far estimates were from the averages before them, in parts of |g|^2 as it was then:
  // a gradient that has fallen by orders of magnitude does not count as one that scatters.
  double sqr_bound() const;
  // Progress of a step at `scale`, in steps at B0: (var + sqr) / (var / scale + sqr). In [1, scale] for
  // scale >= 1.
  double Gain(double scale) const;
  // The least that the estimates leave possible, see CertainAt(). In [1, scale] for scale >= 1.
  double CertainGain(double scale) const;

  // For each group as averaged; may be negative. 1 and 0 before the first update.
  const std::vector<double>& raw_sqr_avg() const { return sqr_avg_; }
  const std::vector<double>& raw_var_avg() const { return var_avg_; }
  // For each group, of what a gradient of a batch at `scale` is (|g|^2 = sqr + var / scale, which is known
  // well): the largest part that may be the true gradient, as sqr; the rest as var, at B0. Both >= 0; in
  // units in which their sum is at least 1, beside which the least variance that rules reckon with is
  // nothing.
  struct Certain {
    std::vector<double> sqr;
    std::vector<double> var;
  };
  Certain CertainAt(double scale) const;

  // Whether the newest step was one for the differenced estimator.
  bool differenced() const { return differenced_; }
  // Share of the averages' weight that estimates have: 1 - decay of all since the averages began. 0: none
  // yet.
  double weight() const { return means_.weight + pairs_.weight; }

  // All of the state (JSON). A previous gradient is the caller's: without it, as after a restart, the
  // differenced estimate goes on with the second step.
  std::string Save() const;
  // DATA_LOSS: `text` is not what Save() gives. FAILED_PRECONDITION: it is, for another number of groups.
  // Nothing is changed then.
  absl::Status Load(const std::string& text);

  size_t groups() const { return options_.groups; }

 private:
  struct Estimate {
    // By group.
    std::vector<double> sqr = {};
    std::vector<double> var = {};
    // Part of sqr in |g|^2 of a batch of this scale, in [-1, 1]; and over all groups.
    std::vector<double> part = {};
    double total_part = 1;
    double scale = 1;
  };

  // Averages before bias correction: each number is a sum over estimates, which weigh less the older they
  // are.
  struct Sums {
    explicit Sums(size_t groups) : sqr(groups, 0), var(groups, 0), part_square(groups, 0) {}

    void Decay(double factor);
    void Add(double weight_of_new, const Estimate& estimate);
    // How far off the average it was, in parts of |g|^2.
    void AddSurprise(double weight_of_new, double surprise);

    // By group: estimates of sqr and of var, and squares of the part of sqr.
    std::vector<double> sqr;
    std::vector<double> var;
    std::vector<double> part_square;
    // Squares of estimates of sqr over all groups, of how far these were off, and the weights of those, and of its part.
    double total_square = 0;
    double surprise_square = 0;
    double surprise_weight = 0;
    double total_part_square = 0;
    // Total batches by B0.
    double scale = 0;
    // Weights, and their squares.
    double weight = 0;
    double weight_square = 0;
  };

  Outcome UpdateFromMean(const StepNorms& norms);
  Outcome UpdateFromPair(const StepNorms& norms);
  // False: not all is finite; nothing is changed.
  bool Average(const Estimate& estimate, double decay_scale, Sums* to);
  void Correct();
  // |g|^2 of a batch of this scale, by the averages.
  double ExpectedTotal(double scale) const;
  // The part of |g|^2 of a batch of this scale that the true gradient may have, in [0, 1].
  double CertainPart(double part_square_sum, double scale) const;
  // Throws what nlohmann::json does, or std::invalid_argument.
  static void Load(const nlohmann::json& saved, Sums* sums);

  NoiseScaleOptions options_;
  double progress_ = 0;
  double prev_scale_ = 0;
  bool differenced_ = false;
  std::vector<double> sqr_avg_;
  std::vector<double> var_avg_;
  // Of estimates from several gradients, and of differenced ones since the last of those.
  Sums means_;
  Sums pairs_;
  int64_t estimates_ = 0;
  // Steps since the last measured one, and the batches of B0 in them.
  int64_t skipped_steps_ = 0;
  double skipped_scale_ = 0;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_GRADIENTS_NOISE_SCALE_H_
