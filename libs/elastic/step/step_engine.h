// What an optimiser step of a job is, whatever the model is made of: the gradients that the replicas agree on,
// statistics about them, the factor on the learning rate that these allow, loss scaling, and what becomes of a
// step when a replica is lost in it. A step is taken on all replicas or on none.
//
//   front end: backward pass ──▶ exchange()                 averages, as it runs (GradientExchange)
//              Step() ──▶ agreed on ──▶ statistics ──▶ scaling rule ──▶ Optimizer::Step()
//
// Front ends for LibTorch and others implement ModelTensors and Optimizer.
//
// Thread-safety: the training thread only, but for exchange().

#ifndef ADAPTDL_LIBS_ELASTIC_STEP_STEP_ENGINE_H_
#define ADAPTDL_LIBS_ELASTIC_STEP_STEP_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "adaptdl/grad_scaler.h"
#include "adaptdl/job.h"
#include "adaptdl/scaling_rule.h"
#include "libs/device/device.h"
#include "libs/elastic/gradients/gradient_exchange.h"
#include "libs/elastic/gradients/model_tensors.h"
#include "libs/elastic/gradients/noise_scale.h"
#include "libs/elastic/job/job_core.h"
#include "libs/elastic/step/optimizer.h"

namespace adaptdl {
class TensorBoardWriter;
}

namespace adaptdl::elastic {

class StepEngine {
 public:
  struct Options {
    // Of its states in checkpoints.
    std::string name = "adaptdl";
    GradientExchange::Options exchange = {};
    std::shared_ptr<ScalingRule> scaling_rule = {};
    // Not owned. Null: losses are not scaled.
    GradScaler* grad_scaler = nullptr;
    // What the program multiplies the losses of the next pass by, and divides the gradients by when backward() has
    // returned, if it does that itself. Null: it does not.
    std::function<double()> loss_scale = nullptr;
    // Statistics are measured in one step of so many.
    int statistics_period = 8;
    // What their averages keep of the past in a step of the initial batch size. In (0, 1).
    double statistics_smoothing = 0.999;
  };

  // None is owned; all lies on `device`. Registers its states with the job, whose replicas have met.
  StepEngine(Job& job, device::Device* device, ModelTensors* model, Optimizer* optimizer,
             const Options& options);
  ~StepEngine();
  StepEngine(const StepEngine&) = delete;
  StepEngine& operator=(const StepEngine&) = delete;

  // For the front end's backward passes.
  GradientExchange& exchange() { return *exchange_; }

  // After each backward pass. Collective. Ends the process when the job cannot go on here.
  void Step();
  // The program has not called Step() after its last backward pass, and goes on: if the step's exchange is over, it
  // is complete without the optimiser, as one that overflowed. On all replicas alike.
  void LeaveOut();
  // Makes all gradients undefined, but for between the micro-batches of a step.
  void ZeroGrad();

  const NoiseScale& noise() const { return noise_; }
  // Whether something may be measured in the next step, if that is one pass of one replica.
  bool MayMeasureNext() const;
  // Whether the step of the loop's micro-batch in progress is such a pass, measures nothing, and leaves the learning rates as
  // they are: the optimiser may take it before Step() is called.
  bool IsPlain() const;
  // Of the last step: the steps at the initial batch size that it was worth; the factor on the learning rate,
  // averaged over the parameter groups.
  double gain() const { return gain_; }
  double learning_rate_factor() const { return learning_rate_factor_; }

  void ToTensorBoard(TensorBoardWriter& writer, int64_t step, const std::string& prefix) const;

 private:
  void Register(std::unique_ptr<CheckpointState> state);
  GradientExchange::Callbacks Callbacks();
  BackwardPass Pass() const;
  double SampleScale() const;
  std::optional<ExchangeResult> Take();
  void TakeOver();
  void Finish(const ExchangeResult& result, bool left_out);
  void Complete(bool left_out);
  void UpdateStatistics(const ExchangeResult& result);
  void Apply();
  void CheckFactors(const std::vector<double>& factors);
  void TellStatistics();

  Job& job_;
  JobCore& core_;
  Optimizer& optimizer_;
  const size_t num_groups_;
  // How many the optimiser had when this was made.
  const size_t num_parameters_;
  GradScaler* const scaler_;
  const std::function<double()> loss_scale_;
  const std::shared_ptr<ScalingRule> rule_;
  NoiseScale noise_;
  // Whether this model's gradients tell the job's progress.
  const bool leads_;
  std::vector<std::unique_ptr<CheckpointState>> states_;
  std::unique_ptr<GradientExchange> exchange_;
  bool initialized_ = false;
  double gain_ = 1;
  double learning_rate_factor_ = 1;
  // Micro-batches of one replica in the last step. 0: no step was taken.
  int64_t accum_count_ = 0;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_STEP_STEP_ENGINE_H_
