// A training program without any framework: a described model with a step engine, and stochastic gradient
// descent with momentum. Its numbers lie on a device; the host changes them through the device alone.

#ifndef ADAPTDL_TESTS_LIBS_ELASTIC_STEP_DESCRIBED_TRAINING_H_
#define ADAPTDL_TESTS_LIBS_ELASTIC_STEP_DESCRIBED_TRAINING_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "adaptdl/job.h"
#include "adaptdl/scaling_rule.h"
#include "libs/elastic/step/step_engine.h"
#include "tests/libs/elastic/gradients/described_model.h"
#include "tests/libs/elastic/gradients/exchange_member.h"

namespace adaptdl::elastic {

class DescribedTraining {
 public:
  struct Options {
    device::DataType type = device::DataType::kFloat32;
    GradScaler* grad_scaler = nullptr;
    int statistics_period = 8;
    double statistics_smoothing = 0.999;
    double learning_rate = 0.1;
  };

  // Parameters of these sizes, all numbers `initial`.
  DescribedTraining(Job& job, device::Device& device, const std::vector<int64_t>& sizes, double initial,
                    const Options& options)
      : learning_rate_(options.learning_rate),
        model_(device, LayoutOf(sizes, options.type)),
        state_(this),
        optimizer_(this),
        job_(Meet(job)) {
    for (const int64_t size : sizes) {
      parameters_.push_back(model_.Make(Numbers(static_cast<size_t>(size), initial), options.type));
      momentum_.emplace_back(static_cast<size_t>(size), 0);
    }
    if (!job_.Register(&state_)) Broadcast();
    engine_ = std::make_unique<StepEngine>(
        job_, &device, &model_, &optimizer_,
        StepEngine::Options{.scaling_rule = std::make_shared<AdaScale>(),
                            .grad_scaler = options.grad_scaler,
                            .statistics_period = options.statistics_period,
                            .statistics_smoothing = options.statistics_smoothing});
  }
  DescribedTraining(Job& job, device::Device& device, const std::vector<int64_t>& sizes, double initial)
      : DescribedTraining(job, device, sizes, initial, Options()) {}
  ~DescribedTraining() {
    engine_.reset();
    job_.Unregister(&state_);
  }

  StepEngine& engine() { return *engine_; }
  DescribedModel& model() { return model_; }
  void Backward(const Gradients& gradients) { model_.Backward(engine_->exchange(), gradients); }

  // All of them, one after the other.
  std::vector<float> Parameters() {
    std::vector<float> numbers;
    for (const DescribedTensor& parameter : parameters_) {
      for (const double number : model_.Read(parameter.ref)) numbers.push_back(static_cast<float>(number));
    }
    return numbers;
  }
  int steps() const { return steps_; }

 private:
  // Parameters and momentum.
  class State final : public CheckpointState {
   public:
    explicit State(DescribedTraining* training) : training_(training) {}
    std::string name() const override { return "described-model"; }
    bool changes_with_steps() const override { return true; }
    std::string Save() override {
      std::string bytes;
      for (size_t i = 0; i < training_->parameters_.size(); ++i) {
        Append(training_->model_.Read(training_->parameters_[i].ref), &bytes);
        Append(training_->momentum_[i], &bytes);
      }
      return bytes;
    }
    bool Load(const std::string& bytes) override {
      const char* at = bytes.data();
      for (size_t i = 0; i < training_->parameters_.size(); ++i) {
        Numbers numbers(training_->momentum_[i].size());
        std::memcpy(numbers.data(), at, numbers.size() * sizeof(double));
        at += numbers.size() * sizeof(double);
        training_->model_.Write(training_->parameters_[i].ref, numbers);
        std::memcpy(training_->momentum_[i].data(), at, numbers.size() * sizeof(double));
        at += numbers.size() * sizeof(double);
      }
      return at == bytes.data() + bytes.size();
    }

   private:
    static void Append(const Numbers& numbers, std::string* bytes) {
      bytes->append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(double));
    }
    DescribedTraining* const training_;
  };

  class Descent final : public Optimizer {
   public:
    explicit Descent(DescribedTraining* training) : training_(training) {}
    size_t CountParameters() const override { return training_->model_.layout().parameters.size(); }
    void Step(absl::Span<const double> factors) override { training_->Descend(factors[0]); }

   private:
    DescribedTraining* const training_;
  };

  static ModelTensors::Layout LayoutOf(const std::vector<int64_t>& sizes, device::DataType type) {
    ModelTensors::Layout layout;
    for (const int64_t size : sizes) layout.parameters.push_back({size, type, 0});
    return layout;
  }

  Job& Meet(Job& job) {
    job.Expect(&state_);
    job.core();
    return job;
  }

  void Broadcast() {
    std::string bytes = state_.Save();
    if (!job_.core().team().communicator().BroadcastString(&bytes, 0).ok()) return;
    state_.Load(bytes);
  }

  void Descend(double factor) {
    ++steps_;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const std::optional<Numbers> gradient = model_.GradientNumbers(i);
      if (!gradient) continue;
      Numbers numbers = model_.Read(parameters_[i].ref);
      for (size_t k = 0; k < numbers.size(); ++k) {
        momentum_[i][k] = 0.9 * momentum_[i][k] + (*gradient)[k];
        numbers[k] -= learning_rate_ * factor * momentum_[i][k];
      }
      model_.Write(parameters_[i].ref, numbers);
    }
  }

  const double learning_rate_;
  DescribedModel model_;
  std::vector<DescribedTensor> parameters_;
  std::vector<Numbers> momentum_;
  State state_;
  Descent optimizer_;
  Job& job_;
  std::unique_ptr<StepEngine> engine_;
  int steps_ = 0;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_TESTS_LIBS_ELASTIC_STEP_DESCRIBED_TRAINING_H_
