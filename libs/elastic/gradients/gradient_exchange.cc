#include "libs/elastic/gradients/gradient_exchange.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace adaptdl::elastic {

using device::Stream;
using device::TensorPass;

namespace {

// Bytes of new memory that are touched in a few milliseconds.
constexpr int64_t kQuicklyTouched = int64_t{16} << 20;

}  // namespace

GradientExchange::GradientExchange(comm::Communicator* communicator, device::Device* device,
                                   ModelTensors* model, const Options& options, Callbacks callbacks)
    : communicator_(communicator),
      device_(device),
      model_(model),
      options_(options),
      callbacks_(std::move(callbacks)),
      numbers_(device, model->layout().num_groups),
      pairs_(device, model, &numbers_),
      passes_to_run_(device),
      passes_after_(device),
      sync_timer_(device, callbacks_.seconds),
      trained_(model->layout().parameters.size(), false),
      buckets_(communicator, device, model, options.buckets),
      units_(trained_.size(), 0),
      ready_(trained_.size(), false) {}

GradientExchange::~GradientExchange() { AwaitDevice(); }

// Memory is about to be freed that work on the model's stream may still be using.
void GradientExchange::AwaitDevice() {
  if (!device_->asynchronous() || !numbers_.made()) return;
  // If the device cannot say, it uses nothing any more.
  if (numbers_.Fetch(model_->stream()).ok()) (void)numbers_.Await();
}

bool GradientExchange::Note(const absl::Status& status) {
  error_.Update(status);
  return status.ok();
}

// For what does not stay in memory until the queue is flushed.
bool GradientExchange::RunNow(const TensorPass& pass) {
  return Run(pass) && Note(passes_to_run_.Flush(model_->stream()));
}

// What needs the device, and the number of signals.
absl::Status GradientExchange::Prepare() {
  if (numbers_.made()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<device::OwnedStream>> stream = device_->CreateStream();
  if (!stream.ok()) return stream.status();
  stream_after_ = *std::move(stream);
  if (absl::Status status = sync_timer_.Make(); !status.ok()) return status;
  const size_t told = trained_.size() + 2 + callbacks_.signals().size();
  const absl::Status status = numbers_.Make(static_cast<int64_t>(told));
  passes_to_run_.SetSums(numbers_.sums());
  passes_after_.SetSums(numbers_.sums());
  return status;
}

// --- The backward pass ---

// A step begins, or its last pass, in which the buckets are filled.
void GradientExchange::FollowFrozen() {
  for (size_t i = 0; i < trained_.size(); ++i) {
    if (model_->IsTrained(i) == trained_[i]) continue;
    trained_[i] = !trained_[i];
    if (buckets_.empty()) continue;
    AwaitDevice();
    buckets_.Clear();
  }
  if (pass_.last && !single() && buckets_.empty()) {
    Note(buckets_.Make(trained_, numbers_.tail_size(), model_->stream()));
  }
}

bool GradientExchange::BeginPass() {
  // A pass that failed half-way has no end.
  if (in_pass_ && callbacks_.attempt() != pass_.attempt) {
    in_pass_ = false;
    DropAttempt();
  }
  if (in_pass_) return false;
  StartPass();
  return true;
}

void GradientExchange::StartPass() {
  if (result_ && error_.ok()) {
    error_ = absl::FailedPreconditionError(
        "backward() ran twice in one optimiser step; add the losses up and call it once, or let the data "
        "loader accumulate gradients");
  }
  const int attempt = pass_.attempt;
  const double norm_divisor = NormDivisor();
  pass_ = callbacks_.begin_pass();
  // Those that were kept are multiplied by another number.
  if (NormDivisor() != norm_divisor) pairs_.Forget();
  if (passes_ > 0 && pass_.attempt != attempt) DropAttempt();
  in_pass_ = true;
  if (pass_.is_void) return;
  dropped_ = false;
  if (passes_ > 0) CheckUnchanged();
  if (!Note(Prepare())) return;
  FollowFrozen();
  if (passes_ == 0) BeginStep();
  if (pass_.weight > 0) ++sampled_passes_;
}

void GradientExchange::DropAttempt() {
  EndStep();
  ClearGradients();
}

void GradientExchange::BeginStep() {
  summing_ = !pass_.last;
  const bool have_previous = pairs_.HasPrevious();
  plan_ = callbacks_.plan(summing_ || !single() ? 2 : 1, have_previous);
  model_->TakeMoments(plan_.norms || plan_.compare);
  const bool alone = single() && !summing_;
  pairs_.BeginStep(alone && plan_.compare, alone && plan_.keep);
  previous_scale_ = std::exchange(scale_, pass_.batch_scale);
  Note(numbers_.Begin(model_->stream()));
}

// Between the micro-batches of a step.
void GradientExchange::CheckUnchanged() {
  if (ProbedVersion() == version_) return;
  Note(absl::FailedPreconditionError(
      "the gradients were changed between the micro-batches of a step; clear them with the ZeroGrad() of "
      "AdaptiveDataParallel, not with the optimiser's zero_grad()"));
}

bool GradientExchange::OnPassGradient(size_t i, const TensorRef& gradient) {
  if (pass_.weight == 0) return false;
  if (!error_.ok()) return true;
  if (plan_.norms) {
    TensorPass pass = PassOver(gradient, model_->MomentsOf(i));
    pass.sum = numbers_.local(parameter(i).group);
    pass.weight = pass_.weight / (pass_.loss_scale * pass_.loss_scale);
    RunNow(pass);
  }
  if (units_[i] != 0 && units_[i] != pass_.weight) {
    const absl::StatusOr<std::optional<TensorRef>> sum = model_->Gradient(i);
    if (!Note(sum.status())) return true;
    TensorPass pass = PassOver(**sum, nullptr);
    pass.factor = units_[i] / pass_.weight;
    pass.target = (*sum)->data;
    pass.target_type = pass.type;
    RunNow(pass);
  }
  units_[i] = pass_.weight;
  return true;
}

void GradientExchange::OnGradientReady(size_t i) {
  if (!pass_.last || ready_[i] || pass_.is_void) return;
  if (!summing_) units_[i] = pass_.weight;
  Complete(i);
  if (options_.overlap) SendReady();
}

void GradientExchange::EndPass() {
  in_pass_ = false;
  if (pass_.is_void) {
    ClearGradients();
    return;
  }
  ++passes_;
  if (pass_.last) {
    result_ = Finish();
    failed_here_ = !error_.ok();
    callbacks_.on_exchanged(result_->status());
    return;
  }
  const auto first = std::find(trained_.begin(), trained_.end(), true);
  probed_ = static_cast<size_t>(first - trained_.begin());
  version_ = ProbedVersion();
}

void GradientExchange::AbandonPass() {
  if (in_pass_ && passes_ == 0) EndStep();
}

uint64_t GradientExchange::ProbedVersion() {
  return probed_ < trained_.size() ? model_->GradientVersion(probed_) : 0;
}

// --- Each gradient of the last pass ---

void GradientExchange::Complete(size_t i) {
  ready_[i] = true;
  if (!trained_[i]) {
    // Frozen between the micro-batches of the step: what the earlier ones gave is nobody else's.
    if (units_[i] != 0) model_->DropGradient(i);
    return;
  }
  std::optional<TensorRef> gradient;
  if (units_[i] != 0 && error_.ok()) {
    absl::StatusOr<std::optional<TensorRef>> found = model_->Gradient(i);
    if (Note(found.status())) gradient = *found;
  }
  if (!gradient) units_[i] = 0;
  if (single()) {
    CompleteSingle(i, gradient);
  } else if (!buckets_.empty()) {
    Pack(i, gradient);
    buckets_.MarkPacked(i);
  }
}

void GradientExchange::CompleteSingle(size_t i, const std::optional<TensorRef>& gradient) {
  if (!gradient) return;
  TensorPass pass = PassOver(*gradient, model_->MomentsOf(i));
  pass.factor = units_[i] / Divisor();
  pass.weight = 1 / NormDivisor();
  if (pass.factor != 1) {
    pass.target = gradient->data;
    pass.target_type = gradient->type;
  }
  if (MeasuresMean() || pass_.check_finite) pass.sum = numbers_.total(parameter(i).group);
  if (!summing_ && !Note(pairs_.Extend(i, &pass))) return;
  if (pass.sum < 0) pass.exp_avg_sq = nullptr;
  if (pass.target != nullptr || pass.kept != nullptr || pass.sum >= 0) Run(pass);
  if (!summing_) pairs_.Keep(i);
}

// Even without a gradient: a slot holds what the step before left there.
void GradientExchange::Pack(size_t i, const std::optional<TensorRef>& gradient) {
  const TensorRef& to = buckets_.slot(i);
  TensorPass pass = PassOver(gradient.value_or(to), plan_.norms ? model_->MomentsOf(i) : nullptr);
  pass.target = to.data;
  pass.target_type = to.type;
  // A share of nothing may hold anything, even NaN.
  pass.factor = units_[i] / Divisor();
  if (gradient && plan_.norms && !summing_) {
    pass.sum = numbers_.local(parameter(i).group);
    // The sum is of units_[i] times the gradient.
    pass.weight = 1 / (units_[i] * NormDivisor());
  }
  Run(pass);
}

void GradientExchange::SendReady() {
  if (!error_.ok()) return;
  const Stream stream = model_->stream();
  while (buckets_.next_is_full()) {
    if (buckets_.next_is_first()) callbacks_.on_sent();
    if (buckets_.next_is_last()) PackTail(stream);
    if (!Note(passes_to_run_.Flush(stream))) return;
    buckets_.SendNext(stream);
  }
}

// By parameter whether it has a gradient; the weight that the buffers have, the number of micro-batches that
// had samples, and the signals.
void GradientExchange::PackTail(Stream stream) {
  for (size_t b = 0; b < model_->layout().buffers.size(); ++b) {
    const TensorRef& to = buckets_.buffer(b);
    TensorPass pass = PassOver(model_->LoadBuffer(b), nullptr);
    pass.factor = pass_.weight;
    pass.target = to.data;
    pass.target_type = to.type;
    Run(pass);
  }
  std::vector<double> told;
  for (const double unit : units_) told.push_back(unit > 0 ? 1 : 0);
  told.push_back(pass_.weight);
  told.push_back(static_cast<double>(sampled_passes_));
  for (const double signal : callbacks_.signals()) told.push_back(signal);
  if (!Note(numbers_.Say(told, stream))) return;
  // What it reads has to be there: local sums.
  if (Note(passes_to_run_.Flush(stream))) Run(numbers_.PutTail(buckets_.tail()));
}

// --- The end of a step ---

absl::StatusOr<ExchangeResult> GradientExchange::Finish() {
  for (size_t i = 0; i < ready_.size(); ++i) {
    if (!ready_[i]) Complete(i);
  }
  if (!error_.ok()) return error_;
  ExchangeResult result;
  absl::Status status;
  if (single()) {
    FinishSingle(&result);
  } else {
    status = FinishBuckets(&result);
  }
  if (!error_.ok()) return error_;
  if (!status.ok()) return status;
  return result;
}

void GradientExchange::FinishSingle(ExchangeResult* result) {
  result->micro_batches = sampled_passes_;
  result->signals = callbacks_.signals();
  result->measured = MeasuresMean();
  result->local_sqr.resize(static_cast<size_t>(num_groups()), 0);
  result->total_sqr.resize(static_cast<size_t>(num_groups()), 0);
  const Stream stream = model_->stream();
  const bool compared = pairs_.compares();
  if (!error_.ok() || !Note(pairs_.EndStep(&passes_to_run_, stream))) return;
  if (!Note(passes_to_run_.Flush(stream))) return;
  // The device may take its time with all else.
  if (!plan_.norms && !compared && !pass_.check_finite) return;
  if (!Note(numbers_.Fetch(stream)) || !Note(numbers_.Await())) return;
  for (int group = 0; group < num_groups(); ++group) {
    result->local_sqr[static_cast<size_t>(group)] = numbers_.Sum(numbers_.local(group));
  }
  ReadSums(result);
  if (!compared) return;
  GradientPair pair;
  for (int group = 0; group < num_groups(); ++group) {
    pair.current_sqr.push_back(numbers_.Sum(numbers_.pair(group)));
    pair.previous_sqr.push_back(numbers_.Sum(numbers_.pair(group) + 1));
    pair.dot.push_back(numbers_.Sum(numbers_.pair(group) + 2));
    result->finite = result->finite && (!pass_.check_finite || std::isfinite(pair.current_sqr.back()));
  }
  pair.previous_scale = previous_scale_;
  result->pair = std::move(pair);
}

absl::Status GradientExchange::FinishBuckets(ExchangeResult* result) {
  const Stream stream = model_->stream();
  if (!Note(sync_timer_.Begin(stream))) return absl::OkStatus();
  SendReady();
  callbacks_.begin_wait();
  // All of them before any gradient is touched: a step is taken as a whole or not at all.
  const absl::Status status = ReceiveBuckets();
  callbacks_.end_wait();
  if (!status.ok() || !error_.ok()) return status;
  result->measured = plan_.norms;
  result->total_sqr.resize(static_cast<size_t>(num_groups()), 0);
  ReadSums(result);
  ReadTail(result);
  for (size_t i = 0; i < trained_.size(); ++i) {
    if (trained_[i]) HandOut(i);
  }
  HandOutBuffers(numbers_.Received(static_cast<int64_t>(trained_.size())));
  const absl::StatusOr<double> seconds = sync_timer_.Seconds();
  if (Note(seconds.status())) result->sync_time = *seconds;
  return absl::OkStatus();
}

// The one wait for a device: when it is over, the host knows all of the exchange.
absl::Status GradientExchange::ReceiveBuckets() {
  const Stream stream = stream_after_->get();
  for (size_t k = 0; k < buckets_.size(); ++k) {
    if (!buckets_.was_sent(k)) continue;
    if (buckets_.Receive(k, stream).ok()) Note(MeasureBucket(k, stream));
  }
  // Also of an exchange that has failed: nothing of it may be under way when the next step begins.
  if (Note(passes_after_.Add(numbers_.TakeTail(buckets_.tail()), stream))) Note(passes_after_.Flush(stream));
  Note(sync_timer_.End(stream));
  if (Note(numbers_.Fetch(stream))) Note(numbers_.Await());
  return buckets_.Finish();
}

absl::Status GradientExchange::MeasureBucket(size_t k, Stream stream) {
  if (!plan_.norms && !pass_.check_finite) return absl::OkStatus();
  for (const size_t i : buckets_.parameters(k)) {
    TensorPass pass = PassOver(buckets_.slot(i), model_->MomentsOf(i));
    pass.sum = numbers_.total(parameter(i).group);
    pass.weight = 1 / NormDivisor();
    if (absl::Status status = passes_after_.Add(pass, stream); !status.ok()) return status;
  }
  return passes_after_.Flush(stream);
}

void GradientExchange::ReadSums(ExchangeResult* result) {
  for (int group = 0; group < num_groups(); ++group) {
    const double sum = numbers_.Sum(numbers_.total(group));
    result->total_sqr[static_cast<size_t>(group)] = sum;
    result->finite = result->finite && (!pass_.check_finite || std::isfinite(sum));
  }
}

void GradientExchange::ReadTail(ExchangeResult* result) {
  for (int group = 0; group < num_groups(); ++group)
    result->local_sqr.push_back(numbers_.ReceivedLocal(group));
  const auto after_parameters = static_cast<int64_t>(trained_.size());
  result->micro_batches = std::llround(numbers_.Received(after_parameters + 1));
  for (int64_t told = after_parameters + 2; told < numbers_.num_told(); ++told) {
    result->signals.push_back(numbers_.Received(told));
  }
}

void GradientExchange::HandOut(size_t i) {
  if (numbers_.Received(static_cast<int64_t>(i)) == 0) {
    model_->DropGradient(i);
  } else if (buckets_.SlotIsGradient(i)) {
    model_->UseSlot(i);
  } else {
    const TensorRef to = model_->MakeGradient(i);
    TensorPass pass = PassOver(buckets_.slot(i), nullptr);
    pass.target = to.data;
    pass.target_type = to.type;
    Run(pass);
  }
}

// The mean of the buffers over the replicas, by their samples. `weight`: of all that had any.
void GradientExchange::HandOutBuffers(double weight) {
  for (size_t b = 0; weight > 0 && b < model_->layout().buffers.size(); ++b) {
    const TensorRef to = model_->LoadBuffer(b);
    TensorPass pass = PassOver(buckets_.buffer(b), nullptr);
    pass.factor = 1 / weight;
    pass.target = to.data;
    pass.target_type = to.type;
    Run(pass);
  }
  Note(passes_to_run_.Flush(model_->stream()));
  for (size_t b = 0; weight > 0 && b < model_->layout().buffers.size(); ++b) model_->StoreBuffer(b);
}

void GradientExchange::EndStep() {
  in_pass_ = false;
  passes_ = 0;
  sampled_passes_ = 0;
  summing_ = false;
  units_.assign(units_.size(), 0);
  ready_.assign(ready_.size(), false);
  passes_to_run_.Drop();
  buckets_.Reset();
  error_ = absl::OkStatus();
  result_.reset();
}

absl::StatusOr<ExchangeResult> GradientExchange::TakeResult() {
  if (!result_) {
    StartPass();
    EndPass();
  }
  absl::StatusOr<ExchangeResult> result = *std::move(result_);
  if (!error_.ok()) result = error_;
  failed_here_ = !error_.ok();
  EndStep();
  return result;
}

bool GradientExchange::IsReadyForSeveral() {
  BucketReserve* const reserve = options_.buckets.reserve;
  if (reserve == nullptr || !buckets_.empty()) return true;
  if (reserve->begun()) return reserve->ready();
  const std::vector<int64_t> sizes = GradientBuckets::SizesFor(model_, options_.buckets);
  if (std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) <= kQuicklyTouched) return true;
  reserve->Begin(sizes);
  return false;
}

void GradientExchange::OnNewGroup(bool keeps_result) {
  // Those before were of another mean.
  pairs_.Forget();
  if (keeps_result && result_) return;
  dropped_ = result_.has_value();
  EndStep();
  ClearGradients();
}

void GradientExchange::ClearGradients() {
  for (size_t i = 0; i < trained_.size(); ++i) model_->DropGradient(i);
}

}  // namespace adaptdl::elastic
