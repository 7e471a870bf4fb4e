// Models: their backward passes, and their optimisers' steps.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "adaptdl/scaling_rule.h"
#include "libs/device/cpu_device.h"
#include "libs/device/device.h"
#include "libs/device/device_loader.h"
#include "libs/elastic/gradients/bucket_reserve.h"
#include "libs/elastic/gradients/gradient_buckets.h"
#include "libs/elastic/job/job_core.h"
#include "libs/elastic/step/optimizer.h"
#include "libs/elastic/step/step_engine.h"
#include "python/engine/calls.h"
#include "python/engine/shared_tensors.h"

namespace adaptdl::python {
namespace {

class CalledOptimizer final : public elastic::Optimizer {
 public:
  CalledOptimizer(adaptdl_job* job, const adaptdl_model_calls& calls, int64_t parameters)
      : job_(job), calls_(calls), parameters_(parameters) {}

  void SetParameters(int64_t parameters) { parameters_ = parameters; }
  // Whether the caller has taken the next step by itself.
  void SetTaken(bool taken) { taken_ = taken; }

  size_t CountParameters() const override { return static_cast<size_t>(parameters_); }
  void Step(absl::Span<const double> factors) override {
    if (taken_) return CheckUnchanged(factors);
    CallBack(job_, calls_.optimizer_step, factors.data(), static_cast<int64_t>(factors.size()));
  }

 private:
  static void CheckUnchanged(absl::Span<const double> factors) {
    if (std::all_of(factors.begin(), factors.end(), [](double factor) { return factor == 1; })) return;
    throw std::logic_error("a step that was to be plain changes the learning rate");
  }

  adaptdl_job* const job_;
  const adaptdl_model_calls calls_;
  int64_t parameters_;
  bool taken_ = false;
};

class CalledRule final : public ScalingRule {
 public:
  CalledRule(adaptdl_job* job, const adaptdl_model_calls& calls) : job_(job), calls_(calls) {}

  std::string name() const override { return "of the program"; }
  std::vector<double> Factors(const StepContext& step) override {
    // What the program forgets to set is refused.
    std::vector<double> factors(step.sqr.size(), std::nan(""));
    CallBack(job_, calls_.factors, step.scale, step.progress, step.init_batch_size, step.sqr.data(),
             step.var.data(), factors.data(), static_cast<int64_t>(factors.size()));
    return factors;
  }

 private:
  adaptdl_job* const job_;
  const adaptdl_model_calls calls_;
};

// Null: there is no such rule.
std::shared_ptr<ScalingRule> KnownRule(int rule, double number, int64_t samples) {
  switch (rule) {
    case ADAPTDL_RULE_ADASCALE:
      return std::make_shared<AdaScale>();
    case ADAPTDL_RULE_ADAMSCALE:
      return std::make_shared<AdamScale>(number);
    case ADAPTDL_RULE_LINEAR:
      return std::make_shared<LinearScale>();
    case ADAPTDL_RULE_SQRT:
      return std::make_shared<SqrtScale>();
    case ADAPTDL_RULE_LEGW:
      return std::make_shared<LEGW>(number, samples);
    default:
      return nullptr;
  }
}

absl::StatusOr<device::Device*> DeviceAt(int index) {
  if (index < 0) return &device::Cpu();
  return device::CudaDeviceAt(index);
}

}  // namespace
}  // namespace adaptdl::python

using adaptdl::python::Call;

struct adaptdl_model {
  using StepEngine = adaptdl::elastic::StepEngine;

  adaptdl_model(adaptdl_job* job, const adaptdl_shared& shared, const adaptdl_model_calls& calls,
                const adaptdl_model_options& options)
      : job(job),
        tensors(job, shared, calls, options.is_adam != 0),
        optimizer(job, calls, options.num_optimizer_parameters),
        device_index(options.device) {
    step_options.name = options.name;
    step_options.exchange.buckets.bytes = options.bucket_bytes;
    step_options.exchange.overlap = options.overlap != 0;
    step_options.statistics_period = options.statistics_period;
    step_options.scaling_rule =
        adaptdl::python::KnownRule(options.rule, options.rule_number, options.rule_samples);
    if (!step_options.scaling_rule) {
      step_options.scaling_rule = std::make_shared<adaptdl::python::CalledRule>(job, calls);
    }
    if (options.scales_loss != 0) {
      step_options.loss_scale = [scale = shared.loss_scale] { return *scale; };
    }
    Reserve();
  }
  ~adaptdl_model() { std::erase(job->models, this); }
  adaptdl_model(const adaptdl_model&) = delete;
  adaptdl_model& operator=(const adaptdl_model&) = delete;

  void Reserve() {
    const absl::StatusOr<adaptdl::device::Device*> device = adaptdl::python::DeviceAt(device_index);
    // What is wrong with it is said when the model is opened.
    if (!device.ok()) return;
    reserve.emplace(*device);
    step_options.exchange.buckets.reserve = &*reserve;
    if (job->job->num_replicas() == 1) return;
    reserve->Get(adaptdl::elastic::GradientBuckets::SizesFor(&tensors, step_options.exchange.buckets));
  }

  void Open() {
    const absl::StatusOr<adaptdl::device::Device*> device = adaptdl::python::DeviceAt(device_index);
    if (!device.ok()) job->job->core().ending().FailUsage(std::string(device.status().message()));
    engine = std::make_unique<StepEngine>(*job->job, *device, &tensors, &optimizer, step_options);
    job->models.push_back(this);
  }

  adaptdl_job* const job;
  adaptdl::python::SharedTensors tensors;
  adaptdl::python::CalledOptimizer optimizer;
  const int device_index;
  StepEngine::Options step_options;
  // What buckets are made of.
  std::optional<adaptdl::elastic::BucketReserve> reserve;
  // Null: not opened yet.
  std::unique_ptr<StepEngine> engine;

  adaptdl::elastic::GradientExchange& exchange() { return engine->exchange(); }
  // What the pass looks at.
  int BeginPass() {
    tensors.BeginPass();
    exchange().BeginPass();
    return (exchange().looks_at_passes() ? ADAPTDL_LOOKS_AT_PASS : 0) |
           (exchange().looks_at_gradients() ? ADAPTDL_LOOKS_AT_GRADIENTS : 0);
  }
  void Step() {
    engine->Step();
    *tensors.shared().may_look = engine->MayMeasureNext() ? 1 : 0;
  }
  void CompleteTakenStep() {
    BeginPass();
    exchange().EndPass();
    optimizer.SetTaken(true);
    Step();
    optimizer.SetTaken(false);
  }
};

void adaptdl::python::CompleteTakenSteps(adaptdl_job* job, bool keeps_plain) {
  for (adaptdl_model* model : job->models) {
    int64_t* step = model->tensors.shared().step;
    if (keeps_plain && *step == ADAPTDL_STEP_IS_PLAIN) continue;
    if (std::exchange(*step, ADAPTDL_STEP_IS_ENGINES) == ADAPTDL_STEP_TAKEN) model->CompleteTakenStep();
  }
}

void adaptdl::python::ForeseeSteps(adaptdl_job* job) {
  for (adaptdl_model* model : job->models) {
    *model->tensors.shared().step =
        model->engine->IsPlain() ? ADAPTDL_STEP_IS_PLAIN : ADAPTDL_STEP_IS_ENGINES;
  }
}

struct adaptdl_memory {
  std::shared_ptr<const adaptdl::device::Memory> memory;
};

int adaptdl_model_make(adaptdl_job* job, const adaptdl_shared* shared, const adaptdl_model_calls* calls,
                       const adaptdl_model_options* options, adaptdl_model** model) {
  return Call(job, [&] { *model = new adaptdl_model(job, *shared, *calls, *options); });
}

int adaptdl_model_open(adaptdl_model* model) {
  return Call(model->job, [&] { model->Open(); });
}

int adaptdl_model_close(adaptdl_model* model) {
  const int status = Call(model->job, [] {});
  delete model;
  return status;
}

// --- The backward pass ---

int adaptdl_model_begin(adaptdl_model* model, int* looks) {
  return Call(model->job, [&] { *looks = model->BeginPass(); });
}

int adaptdl_model_pass_gradient(adaptdl_model* model, int64_t parameter, uint64_t gradient, int* counts) {
  return Call(model->job, [&] {
    const auto i = static_cast<size_t>(parameter);
    *counts = model->exchange().OnPassGradient(i, model->tensors.Describe(i, gradient)) ? 1 : 0;
  });
}

int adaptdl_model_ready(adaptdl_model* model, int64_t parameter, uint64_t gradient) {
  return Call(model->job, [&] {
    const auto i = static_cast<size_t>(parameter);
    model->tensors.SetGradient(i, gradient);
    model->exchange().OnGradientReady(i);
  });
}

int adaptdl_model_end(adaptdl_model* model) {
  return Call(model->job, [&] { model->exchange().EndPass(); });
}

int adaptdl_model_all_ready(adaptdl_model* model) {
  return Call(model->job, [&] {
    const adaptdl_shared& shared = model->tensors.shared();
    for (int64_t i = 0; i < shared.num_parameters; ++i) {
      if (shared.gradients[i] != 0) model->exchange().OnGradientReady(static_cast<size_t>(i));
    }
  });
}

int adaptdl_model_abandon(adaptdl_model* model) {
  return Call(model->job, [&] { model->exchange().AbandonPass(); });
}

// --- Steps ---

int adaptdl_model_step(adaptdl_model* model, int64_t parameters, int pass, int* looks) {
  return Call(model->job, [&] {
    *looks = 0;
    if (pass == ADAPTDL_PASS_BEGINS) {
      *looks = model->BeginPass();
      if (*looks != 0) return;
    }
    if (pass != ADAPTDL_PASS_IS_OVER) model->exchange().EndPass();
    model->optimizer.SetParameters(parameters);
    model->Step();
  });
}

int adaptdl_model_leave_out(adaptdl_model* model) {
  return Call(model->job, [&] { model->engine->LeaveOut(); });
}

int adaptdl_model_zero_grad(adaptdl_model* model) {
  return Call(model->job, [&] { model->engine->ZeroGrad(); });
}

int adaptdl_model_accumulating(const adaptdl_model* model) {
  return model->engine->exchange().accumulating() ? 1 : 0;
}

// --- What came out ---

int adaptdl_model_statistics(adaptdl_model* model, adaptdl_statistics* statistics) {
  return Call(model->job, [&] {
    const adaptdl::elastic::NoiseScale& noise = model->engine->noise();
    *statistics = {model->engine->gain(), model->engine->learning_rate_factor(), noise.sqr_avg(),
                   noise.var_avg(), noise.progress()};
  });
}

int adaptdl_model_raw_statistics(adaptdl_model* model, double* sqr, double* var) {
  return Call(model->job, [&] {
    const adaptdl::elastic::NoiseScale& noise = model->engine->noise();
    for (size_t group = 0; group < noise.groups(); ++group) {
      sqr[group] = noise.raw_sqr_avg()[group];
      var[group] = noise.raw_var_avg()[group];
    }
  });
}

double adaptdl_model_gain_at(const adaptdl_model* model, double scale) {
  return model->engine->noise().Gain(scale);
}

adaptdl_memory* adaptdl_memory_of_slot(const adaptdl_model* model, int64_t parameter) {
  return new adaptdl_memory{model->tensors.MemoryOfSlot(static_cast<size_t>(parameter))};
}

void adaptdl_memory_close(adaptdl_memory* memory) { delete memory; }

int adaptdl_rule_factors(int rule, double rule_number, int64_t rule_samples, double scale, double progress,
                         int64_t init_batch_size, const double* sqr, const double* var, double* factors,
                         int64_t groups) {
  const auto known = adaptdl::python::KnownRule(rule, rule_number, rule_samples);
  if (!known) return adaptdl::python::NoteError("there is no such scaling rule");
  known->Initialize(init_batch_size, static_cast<int>(groups));
  const std::vector<double> made = known->Factors({.scale = scale,
                                                   .sqr = std::vector<double>(sqr, sqr + groups),
                                                   .var = std::vector<double>(var, var + groups),
                                                   .progress = progress,
                                                   .init_batch_size = init_batch_size});
  for (size_t group = 0; group < made.size(); ++group) factors[group] = made[group];
  return ADAPTDL_OK;
}
