#include "libs/elastic/torch/gradient_exchange.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "ATen/ATen.h"
#include "libs/elastic/torch/gradient_buckets.h"
#include "torch/csrc/autograd/engine.h"
#include "torch/csrc/autograd/function.h"
#include "torch/csrc/autograd/utils/lambda_post_hook.h"
#include "torch/csrc/autograd/variable.h"
#include "torch/utils.h"

namespace adaptdl::elastic {
namespace {

// A counted pointer; of what kind depends on the version of LibTorch.
using GradAccumulator = decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

}  // namespace

class GradientExchange::Impl : public std::enable_shared_from_this<GradientExchange::Impl> {
 public:
  Impl(comm::Communicator* communicator, GradientNorms* norms, Tensors tensors, const Options& options,
       Callbacks callbacks)
      : communicator_(communicator),
        norms_(norms),
        parameters_(std::move(tensors.parameters)),
        groups_(std::move(tensors.groups)),
        num_groups_(static_cast<size_t>(tensors.num_groups)),
        buffers_(std::move(tensors.buffers)),
        options_(options),
        callbacks_(std::move(callbacks)),
        pairs_(norms, groups_, tensors.num_groups),
        trained_(parameters_.size(), false),
        buckets_(communicator, &parameters_, &groups_, &buffers_, options.bucket_bytes),
        units_(parameters_.size(), 0),
        ready_(parameters_.size(), false),
        local_sqr_(parameters_.size(), 0),
        total_sqr_(num_groups_, 0) {}

  void Hook();
  absl::StatusOr<ExchangeResult> TakeResult();
  void OnNewGroup(bool keeps_result);
  bool TakeDropped() { return std::exchange(dropped_, false); }
  void ClearGradients();
  bool accumulating() const { return passes_ > 0 && !result_; }

 private:
  bool single() const { return communicator_->size() == 1; }

  void FollowFrozen();

  // A backward pass, in this order.
  void BeginPass();
  at::Tensor OnPassGradient(size_t i, const at::Tensor& gradient);
  void OnGradientReady(size_t i);
  void OnPassEnd();

  void DropAttempt();
  void BeginStep();
  void CheckUnchanged();
  void Complete(size_t i);
  void CompleteSingle(size_t i);
  bool MeasuresMean() const;
  uint32_t ProbedVersion() const;
  void Pack(size_t i);
  void LaunchReady();
  absl::StatusOr<ExchangeResult> Finish();
  absl::Status FinishSingle(ExchangeResult* result);
  absl::Status FinishBuckets(ExchangeResult* result);
  void Take(size_t i, const at::Tensor* average, ExchangeResult* result);
  void EndStep();

  comm::Communicator* const communicator_;
  GradientNorms* const norms_;
  const std::vector<at::Tensor> parameters_;
  const std::vector<int> groups_;
  const size_t num_groups_;
  const std::vector<at::Tensor> buffers_;
  const Options options_;
  const Callbacks callbacks_;
  GradientPairs pairs_;

  // Parameters hold them weakly.
  std::vector<GradAccumulator> accumulators_;
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
  // grad() of parameter i, times units_[i], is the weighted sum of its gradients. 0: it has none that count.
  std::vector<double> units_;
  // Parameters that are complete.
  std::vector<bool> ready_;
  // By parameter, of this replica's micro-batches.
  std::vector<double> local_sqr_;
  // By group; single replica.
  std::vector<double> total_sqr_;
  // Single replica: whether the gradients so far are finite, where that is asked.
  bool finite_ = true;
  // Version of the gradient of parameter probed_, the first that is trained, when the last pass ended.
  size_t probed_ = 0;
  uint32_t version_ = 0;
  absl::Status error_;
  std::optional<absl::StatusOr<ExchangeResult>> result_;
  // Whether there was a result of the last step, and nobody has taken it.
  bool dropped_ = false;
};

// --- The backward pass ---

// A step begins, or its last pass, in which the buckets are filled.
void GradientExchange::Impl::FollowFrozen() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].requires_grad() == trained_[i]) continue;
    trained_[i] = !trained_[i];
    buckets_.Clear();
  }
  if (pass_.last && !single() && buckets_.empty()) buckets_.Make(trained_, callbacks_.signals().size());
}

void GradientExchange::Impl::Hook() {
  using torch::autograd::variable_list;
  using torch::autograd::utils::LambdaPostHook;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    // The hooks belong to the parameter, which may outlive this object.
    const std::weak_ptr<Impl> weak = weak_from_this();
    // Only what requires gradients takes hooks; what is frozen keeps them, for when it does not stay so.
    const bool frozen = !parameters_[i].requires_grad();
    if (frozen) parameters_[i].set_requires_grad(true);
    parameters_[i].register_hook([weak, i](const at::Tensor& gradient) {
      const std::shared_ptr<Impl> self = weak.lock();
      return self ? self->OnPassGradient(i, gradient) : at::Tensor();
    });
    accumulators_.push_back(torch::autograd::impl::grad_accumulator(parameters_[i]));
    accumulators_.back()->add_post_hook(
        std::make_unique<LambdaPostHook>([weak, i](const variable_list& outputs, const variable_list&) {
          if (const std::shared_ptr<Impl> self = weak.lock()) self->OnGradientReady(i);
          return outputs;
        }));
    if (frozen) parameters_[i].set_requires_grad(false);
  }
}

void GradientExchange::Impl::BeginPass() {
  if (result_ && error_.ok()) {
    error_ = absl::FailedPreconditionError(
        "backward() ran twice in one optimiser step; add the losses up and call it once, or let the data "
        "loader "
        "accumulate gradients");
  }
  const int attempt = pass_.attempt;
  pass_ = callbacks_.begin_pass();
  if (passes_ > 0 && pass_.attempt != attempt) DropAttempt();
  in_pass_ = true;
  if (pass_.is_void) return;
  dropped_ = false;
  if (passes_ > 0) CheckUnchanged();
  FollowFrozen();
  if (passes_ == 0) BeginStep();
  if (pass_.weight > 0) ++sampled_passes_;
}

void GradientExchange::Impl::DropAttempt() {
  EndStep();
  ClearGradients();
}

void GradientExchange::Impl::BeginStep() {
  summing_ = !pass_.last;
  norms_->BeginStep();
  const bool have_previous = pairs_.HasPrevious();
  plan_ = callbacks_.plan(summing_ || !single() ? 2 : 1, have_previous);
  if (single() && !summing_) {
    pairs_.BeginStep(plan_.compare, plan_.keep, pass_.batch_scale);
  } else {
    pairs_.BeginStep(false, false, pass_.batch_scale);
  }
}

// Between the micro-batches of a step.
void GradientExchange::Impl::CheckUnchanged() {
  if (ProbedVersion() == version_) return;
  error_ = absl::FailedPreconditionError(
      "the gradients were changed between the micro-batches of a step; clear them with the ZeroGrad() of "
      "AdaptiveDataParallel, not with the optimiser's zero_grad()");
}

// The gradient of this pass alone, before it is added to grad(). Undefined: it stays as it is.
at::Tensor GradientExchange::Impl::OnPassGradient(size_t i, const at::Tensor& gradient) {
  // A pass that failed half-way has no end.
  if (in_pass_ && callbacks_.attempt() != pass_.attempt) {
    in_pass_ = false;
    DropAttempt();
  }
  if (!in_pass_) {
    BeginPass();
    torch::autograd::Engine::get_default_engine().queue_callback([weak = weak_from_this()] {
      if (const std::shared_ptr<Impl> self = weak.lock()) self->OnPassEnd();
    });
  }
  if (!summing_ || pass_.is_void) return {};
  if (pass_.weight == 0) return at::zeros_like(gradient);
  if (plan_.norms) {
    local_sqr_[i] += pass_.weight * norms_->Squared(i, gradient) / (pass_.loss_scale * pass_.loss_scale);
  }
  if (units_[i] != 0 && units_[i] != pass_.weight) {
    torch::NoGradGuard no_gradients;
    parameters_[i].mutable_grad().mul_(units_[i] / pass_.weight);
  }
  units_[i] = pass_.weight;
  return {};
}

// grad() holds the sum over the passes so far.
void GradientExchange::Impl::OnGradientReady(size_t i) {
  if (!pass_.last || ready_[i] || pass_.is_void) return;
  if (!summing_) units_[i] = pass_.weight;
  torch::NoGradGuard no_gradients;
  Complete(i);
  if (options_.overlap) LaunchReady();
}

void GradientExchange::Impl::OnPassEnd() {
  in_pass_ = false;
  if (pass_.is_void) {
    ClearGradients();
    return;
  }
  ++passes_;
  if (pass_.last) {
    result_ = Finish();
    callbacks_.on_exchanged(result_->status());
    return;
  }
  const auto first = std::find(trained_.begin(), trained_.end(), true);
  probed_ = static_cast<size_t>(first - trained_.begin());
  version_ = ProbedVersion();
}

uint32_t GradientExchange::Impl::ProbedVersion() const {
  if (probed_ >= parameters_.size()) return 0;
  const at::Tensor& gradient = parameters_[probed_].grad();
  return gradient.defined() ? static_cast<uint32_t>(gradient._version()) : 0;
}

// --- The end of a step ---

void GradientExchange::Impl::Complete(size_t i) {
  ready_[i] = true;
  if (!trained_[i]) {
    // Frozen between the micro-batches of the step: what the earlier ones gave is nobody else's.
    if (units_[i] != 0) parameters_[i].mutable_grad() = at::Tensor();
    return;
  }
  const at::Tensor& gradient = parameters_[i].grad();
  if (gradient.defined() && gradient.layout() != at::kStrided) {
    error_ = absl::UnimplementedError(
        "a gradient is sparse, and sparse gradients cannot be averaged; make the embedding without "
        "sparse(true)");
    units_[i] = 0;
  }
  if (single()) {
    CompleteSingle(i);
  } else {
    Pack(i);
    buckets_.MarkPacked(i);
  }
}

void GradientExchange::Impl::CompleteSingle(size_t i) {
  at::Tensor& gradient = parameters_[i].mutable_grad();
  if (units_[i] == 0 || !gradient.defined()) return;
  const double factor = units_[i] / pass_.loss_scale;
  if (MeasuresMean() || pass_.check_finite) {
    const double sqr = factor * factor * norms_->SquaredThenScale(i, factor, &gradient);
    finite_ = finite_ && std::isfinite(sqr);
    total_sqr_[static_cast<size_t>(groups_[i])] += sqr;
  } else if (factor != 1) {
    gradient.mul_(factor);
  }
  if (!summing_) pairs_.Add(i, gradient);
}

// Single replica: whether the norm of the step's gradient is measured by itself, and not with a comparison.
bool GradientExchange::Impl::MeasuresMean() const { return plan_.norms && !plan_.compare; }

void GradientExchange::Impl::Pack(size_t i) {
  at::Tensor& to = buckets_.slot(i);
  at::Tensor& gradient = parameters_[i].mutable_grad();
  // A share of nothing may hold anything, even NaN.
  if (units_[i] == 0 || !gradient.defined()) {
    units_[i] = 0;
    to.zero_();
    return;
  }
  const double factor = units_[i] / pass_.loss_scale;
  if (summing_ || !plan_.norms) {
    if (gradient.data_ptr() != to.data_ptr()) to.copy_(gradient);
    to.mul_(factor);
    return;
  }
  const double sqr = norms_->SquaredThenScaleTo(i, factor, gradient, &to);
  local_sqr_[i] = units_[i] * sqr / (pass_.loss_scale * pass_.loss_scale);
}

void GradientExchange::Impl::LaunchReady() {
  buckets_.Launch({.units = &units_,
                   .local_sqr = &local_sqr_,
                   .weight = pass_.weight,
                   .sampled_passes = sampled_passes_,
                   .signals = &callbacks_.signals},
                  callbacks_.on_sent);
}

absl::StatusOr<ExchangeResult> GradientExchange::Impl::Finish() {
  torch::NoGradGuard no_gradients;
  ExchangeResult result;
  result.local_sqr.resize(num_groups_, 0);
  result.total_sqr.resize(num_groups_, 0);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!ready_[i]) Complete(i);
  }
  const absl::Status status = single() ? FinishSingle(&result) : FinishBuckets(&result);
  if (!error_.ok()) return error_;
  if (!status.ok()) return status;
  return result;
}

absl::Status GradientExchange::Impl::FinishSingle(ExchangeResult* result) {
  result->micro_batches = sampled_passes_;
  result->signals = callbacks_.signals();
  result->measured = MeasuresMean();
  result->finite = finite_;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    result->local_sqr[static_cast<size_t>(groups_[i])] += local_sqr_[i];
  }
  result->total_sqr = total_sqr_;
  result->pair = pairs_.EndStep();
  return absl::OkStatus();
}

absl::Status GradientExchange::Impl::FinishBuckets(ExchangeResult* result) {
  const double start = callbacks_.seconds();
  LaunchReady();
  callbacks_.begin_wait();
  // All of them before any gradient is touched: a step is taken as a whole or not at all.
  const absl::Status status = buckets_.Await();
  callbacks_.end_wait();
  if (!status.ok()) return status;
  result->measured = plan_.norms;
  GradientBuckets::Sums sums;
  sums.local_sqr = std::move(result->local_sqr);
  buckets_.Unpack([&](size_t i, const at::Tensor* average) { Take(i, average, result); }, &sums);
  result->local_sqr = std::move(sums.local_sqr);
  result->micro_batches = sums.micro_batches;
  result->signals = std::move(sums.signals);
  result->sync_time = callbacks_.seconds() - start;
  return absl::OkStatus();
}

// Null: no replica has a gradient.
void GradientExchange::Impl::Take(size_t i, const at::Tensor* average, ExchangeResult* result) {
  at::Tensor& gradient = parameters_[i].mutable_grad();
  if (average == nullptr) {
    gradient = at::Tensor();
    return;
  }
  if (result->measured || pass_.check_finite) {
    const double sqr = norms_->Squared(i, *average);
    result->finite = result->finite && std::isfinite(sqr);
    result->total_sqr[static_cast<size_t>(groups_[i])] += sqr;
  }
  if (parameters_[i].scalar_type() == average->scalar_type() && parameters_[i].is_contiguous()) {
    gradient = *average;
  } else {
    if (!gradient.defined()) gradient = at::empty_like(parameters_[i]);
    gradient.copy_(*average);
  }
}

void GradientExchange::Impl::EndStep() {
  in_pass_ = false;
  passes_ = 0;
  sampled_passes_ = 0;
  summing_ = false;
  units_.assign(units_.size(), 0);
  ready_.assign(ready_.size(), false);
  local_sqr_.assign(local_sqr_.size(), 0);
  total_sqr_.assign(num_groups_, 0);
  finite_ = true;
  buckets_.Reset();
  error_ = absl::OkStatus();
  result_.reset();
}

absl::StatusOr<ExchangeResult> GradientExchange::Impl::TakeResult() {
  if (!result_) {
    BeginPass();
    OnPassEnd();
  }
  absl::StatusOr<ExchangeResult> result = *std::move(result_);
  if (!error_.ok()) result = error_;
  EndStep();
  return result;
}

void GradientExchange::Impl::OnNewGroup(bool keeps_result) {
  // Those before were of another mean.
  pairs_.Forget();
  if (keeps_result && result_) return;
  dropped_ = result_.has_value();
  EndStep();
  ClearGradients();
}

void GradientExchange::Impl::ClearGradients() {
  for (const at::Tensor& parameter : parameters_) parameter.mutable_grad() = at::Tensor();
}

GradientExchange::GradientExchange(comm::Communicator* communicator, GradientNorms* norms, Tensors tensors,
                                   const Options& options, Callbacks callbacks)
    : impl_(std::make_shared<Impl>(communicator, norms, std::move(tensors), options, std::move(callbacks))) {
  impl_->Hook();
}

GradientExchange::~GradientExchange() = default;

absl::StatusOr<ExchangeResult> GradientExchange::TakeResult() { return impl_->TakeResult(); }

void GradientExchange::OnNewGroup(bool keeps_result) { impl_->OnNewGroup(keeps_result); }

bool GradientExchange::TakeDropped() { return impl_->TakeDropped(); }

void GradientExchange::ClearGradients() { impl_->ClearGradients(); }

bool GradientExchange::accumulating() const { return impl_->accumulating(); }

}  // namespace adaptdl::elastic
