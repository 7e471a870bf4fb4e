#include "adaptdl/data_parallel.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libs/comm/communicator.h"
#include "libs/elastic/job_core.h"
#include "libs/elastic/tensor_states.h"
#include "torch/nn/module.h"
#include "torch/optim/optimizer.h"
#include "torch/utils.h"

namespace adaptdl {
namespace {

comm::Buffer BufferOf(const at::Tensor& flat) {
  return {flat.data_ptr(), flat.numel(),
          flat.scalar_type() == at::kDouble ? comm::DataType::kFloat64 : comm::DataType::kFloat32};
}

// Gradients that travel together, in one flat tensor in main memory.
struct Bucket {
  at::ScalarType type = at::kFloat;
  // Parameters, as numbers.
  std::vector<size_t> parameters;
  // Their gradients one after the other, then `extras` numbers.
  at::Tensor flat;
  std::unique_ptr<comm::Work> work;
};

}  // namespace

class AdaptiveDataParallel::Impl {
 public:
  Impl(Job& job, torch::nn::Module& model, torch::optim::Optimizer& optimizer,
       const DataParallelOptions& options)
      : core_(job.core()),
        job_(job),
        optimizer_(optimizer),
        model_state_(options.name + "-model.safetensors", &model),
        optimizer_state_(options.name + "-optimizer.safetensors", &model, &optimizer),
        random_state_(options.name + "-random", job.rank()) {
    job_.Register(&model_state_);
    job_.Register(&optimizer_state_);
    job_.Register(&random_state_);
    for (const at::Tensor& parameter : model.parameters()) {
      if (parameter.requires_grad()) parameters_.push_back(parameter);
    }
    Broadcast(model);
    MakeBuckets(options.bucket_bytes);
  }

  ~Impl() {
    job_.Unregister(&model_state_);
    job_.Unregister(&optimizer_state_);
    job_.Unregister(&random_state_);
  }

  void Step() {
    double sync_time = 0;
    if (core_.communicator().size() > 1) {
      const double start = core_.Seconds();
      torch::NoGradGuard no_gradients;
      AverageGradients();
      sync_time = core_.Seconds() - start;
    } else {
      core_.AgreeOn(core_.LocalSignals());
    }
    optimizer_.step();
    core_.OnOptimizerStep(sync_time);
  }

 private:
  // The job's signals, then for every parameter whether it has a gradient.
  static constexpr int64_t kSignals = elastic::JobCore::Signals::kCount;

  void Broadcast(torch::nn::Module& model) {
    if (core_.communicator().size() == 1) return;
    torch::NoGradGuard no_gradients;
    std::vector<at::Tensor> tensors = model.parameters();
    for (const at::Tensor& buffer : model.buffers()) tensors.push_back(buffer);
    for (at::Tensor& tensor : tensors) {
      at::Tensor copy = tensor.detach().to(at::kCPU).contiguous().clone();
      comm::Buffer bytes{copy.data_ptr(), static_cast<int64_t>(copy.nbytes()), comm::DataType::kUint8};
      core_.Check(core_.communicator().Broadcast(bytes, 0));
      tensor.copy_(copy);
    }
  }

  // Backwards, as gradients come out of a backward pass.
  void MakeBuckets(int64_t bucket_bytes) {
    for (size_t i = parameters_.size(); i-- > 0;) {
      const at::ScalarType type = parameters_[i].scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
      if (buckets_.empty() || buckets_.back().type != type || SizeOf(buckets_.back()) >= bucket_bytes) {
        buckets_.emplace_back();
        buckets_.back().type = type;
      }
      buckets_.back().parameters.push_back(i);
    }
    if (buckets_.empty()) buckets_.emplace_back();
    for (Bucket& bucket : buckets_) {
      int64_t count = &bucket == &buckets_.front() ? kSignals + static_cast<int64_t>(parameters_.size()) : 0;
      for (size_t i : bucket.parameters) count += parameters_[i].numel();
      bucket.flat = at::empty({count}, at::TensorOptions().dtype(bucket.type));
    }
  }

  int64_t SizeOf(const Bucket& bucket) const {
    int64_t bytes = 0;
    for (size_t i : bucket.parameters) bytes += parameters_[i].numel() * (bucket.type == at::kDouble ? 8 : 4);
    return bytes;
  }

  void AverageGradients() {
    for (Bucket& bucket : buckets_) {
      Pack(&bucket);
      bucket.work = core_.communicator().AllReduceAsync(BufferOf(bucket.flat));
    }
    // All of them before any gradient is touched: a step is taken as a whole or not at all.
    core_.BeginWait();
    for (Bucket& bucket : buckets_) core_.Check(bucket.work->Wait());
    core_.EndWait();
    for (Bucket& bucket : buckets_) bucket.work.reset();
    const at::Tensor extras = Extras().to(at::kDouble);
    const double* numbers = extras.data_ptr<double>();
    core_.AgreeOn(elastic::JobCore::Signals::Of(absl::MakeConstSpan(numbers, kSignals)));
    for (Bucket& bucket : buckets_) Unpack(&bucket, numbers + kSignals);
  }

  // What share of the step's samples this replica has.
  double Weight() const {
    const elastic::JobCore::MicroBatch& batch = core_.micro_batch();
    if (batch.step_total == 0) return 1.0 / core_.communicator().size();
    return static_cast<double>(batch.local) / static_cast<double>(batch.step_total);
  }

  at::Tensor Extras() const {
    const at::Tensor& flat = buckets_.front().flat;
    const int64_t count = kSignals + static_cast<int64_t>(parameters_.size());
    return flat.narrow(0, flat.numel() - count, count);
  }

  void Pack(Bucket* bucket) {
    const double weight = Weight();
    int64_t at = 0;
    for (size_t i : bucket->parameters) {
      at::Tensor to = bucket->flat.narrow(0, at, parameters_[i].numel());
      at += parameters_[i].numel();
      const at::Tensor& gradient = parameters_[i].grad();
      // A share of nothing may hold anything, even NaN.
      if (!gradient.defined() || weight == 0) {
        to.zero_();
      } else {
        to.copy_(gradient.reshape({-1}));
        to.mul_(weight);
      }
    }
    if (bucket == &buckets_.front()) PackExtras(weight > 0);
  }

  void PackExtras(bool has_samples) {
    at::Tensor extras = Extras();
    std::vector<double> numbers(static_cast<size_t>(extras.numel()), 0);
    const auto signals = core_.LocalSignals().numbers();
    std::copy(signals.begin(), signals.end(), numbers.begin());
    for (size_t i = 0; i < parameters_.size(); ++i) {
      numbers[kSignals + i] = has_samples && parameters_[i].grad().defined() ? 1 : 0;
    }
    extras.copy_(at::from_blob(numbers.data(), {extras.numel()}, at::kDouble));
  }

  // `counts`: on how many replicas each parameter has a gradient.
  void Unpack(Bucket* bucket, const double* counts) {
    int64_t at = 0;
    for (size_t i : bucket->parameters) {
      at::Tensor& parameter = parameters_[i];
      const at::Tensor from = bucket->flat.narrow(0, at, parameter.numel());
      at += parameter.numel();
      if (counts[i] == 0) {
        parameter.mutable_grad() = at::Tensor();
        continue;
      }
      if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter);
      parameter.mutable_grad().copy_(from.reshape(parameter.sizes()));
    }
  }

  elastic::JobCore& core_;
  Job& job_;
  torch::optim::Optimizer& optimizer_;
  elastic::ModuleState model_state_;
  elastic::OptimizerState optimizer_state_;
  elastic::RandomState random_state_;
  std::vector<at::Tensor> parameters_;
  std::vector<Bucket> buckets_;
};

AdaptiveDataParallel::AdaptiveDataParallel(Job& job, torch::nn::Module& model,
                                           torch::optim::Optimizer& optimizer,
                                           const DataParallelOptions& options)
    : impl_(std::make_unique<Impl>(job, model, optimizer, options)) {}

AdaptiveDataParallel::~AdaptiveDataParallel() = default;

void AdaptiveDataParallel::Step() { impl_->Step(); }

}  // namespace adaptdl
