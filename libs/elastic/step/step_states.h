// What the step engine adds to a job's checkpoints.
//
// Thread-safety: as CheckpointState.

#ifndef ADAPTDL_LIBS_ELASTIC_STEP_STEP_STATES_H_
#define ADAPTDL_LIBS_ELASTIC_STEP_STEP_STATES_H_

#include <string>
#include <utility>

#include "adaptdl/grad_scaler.h"
#include "adaptdl/job.h"
#include "libs/elastic/gradients/noise_scale.h"

namespace adaptdl::elastic {

// Gradient statistics and progress.
class NoiseState final : public CheckpointState {
 public:
  // Not owned.
  NoiseState(std::string name, NoiseScale* noise) : name_(std::move(name)), noise_(noise) {}

  std::string name() const override { return name_; }
  bool changes_with_steps() const override { return true; }
  std::string Save() override { return noise_->Save(); }
  bool Load(const std::string& bytes) override;

 private:
  const std::string name_;
  NoiseScale* const noise_;
};

class GradScalerState final : public CheckpointState {
 public:
  // Not owned.
  GradScalerState(std::string name, GradScaler* scaler) : name_(std::move(name)), scaler_(scaler) {}

  std::string name() const override { return name_; }
  bool changes_with_steps() const override { return true; }
  std::string Save() override;
  bool Load(const std::string& bytes) override;

 private:
  const std::string name_;
  GradScaler* const scaler_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_STEP_STEP_STATES_H_
