// How far the job is: steps, epochs, throughput, and what steps are like. A part of the job's state, and what is reported.
//
// Steps are counted twice: as they are taken, and by what each was worth in steps at the initial batch size
// (scale-invariant steps).
//
// Thread-safety: the training thread only.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_PROGRESS_TRACKER_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_PROGRESS_TRACKER_H_

#include <cstdint>

#include "libs/elastic/control/control_plane.h"
#include "libs/elastic/job/step_summary.h"
#include "nlohmann/json_fwd.hpp"

namespace adaptdl::elastic {

// What the gradients of the job's first model say, as of one step.
struct GradientReport {
  // Statistics at the initial batch size, as goodput::GradParams has them. Negative sqr: not known yet.
  double sqr = -1;
  double var = 0;
  // In samples, and the total batch size that was chosen by it.
  int64_t init_batch_size = 1;
  double scale = 1;
  // What the scaling rule has multiplied learning rates by. 0: not known yet.
  double learning_rate_factor = 0;
};

class ProgressTracker {
 public:
  // A step was taken. `gain`: what it was worth.
  void CountStep(double gain);
  int64_t optimizer_steps() const { return optimizer_steps_; }
  double scale_invariant_steps() const { return scale_invariant_steps_; }
  // Of the last step that was taken.
  double last_gain() const { return last_gain_; }

  // Of the whole job: what its last finished adaptive loop was worth beyond its end. The next loop is the
  // shorter for it.
  double surplus() const { return surplus_; }
  void SetSurplus(double surplus) { surplus_ = surplus; }

  void SetTotalEpochs(int epochs) { report_.total_epochs = epochs; }
  // A loop has come so far in the epoch in progress.
  void SetLoop(const StepSummary& summary);
  // The epoch in progress is done, or none of it yet.
  void FinishPass() { pass_fraction_ = 0; }
  // As of one usual step: samples per second, and where its time went.
  void AddStep(double throughput, const StepTimes& times);
  // Steps may take another time from now on: what is known of them counts until there is something newer.
  void RestartMeans() { steps_in_means_ = 0; }
  // The gradient noise scale is B0 var / sqr: gradients of B samples have a covariance of trace var B0 / B, which is the
  // squared norm of the true one, sqr, at that B (McCandlish et al., 2018, section 2.2). What that cannot be computed from
  // leaves it unknown, and the efficiency with it.
  void SetGradients(const GradientReport& gradients);

  Progress Report(int finished_epochs);

  // Into the job's state, and from it.
  void Save(nlohmann::json* job) const;
  void Load(const nlohmann::json& job);
  // What a step changes. Load: throws what nlohmann::json does.
  void SaveStep(nlohmann::json* step) const;
  void LoadStep(const nlohmann::json& step);

 private:
  int64_t optimizer_steps_ = 0;
  double scale_invariant_steps_ = 0;
  double last_gain_ = 0;
  double surplus_ = 0;
  // Part of the epoch in progress that is done, by the last loop that took optimiser steps.
  double pass_fraction_ = 0;
  // Length of an epoch's loop in steps at the initial batch size. 0: unknown.
  double pass_steps_ = 0;
  // How many the means of what steps are like are of, in so far as that matters.
  int64_t steps_in_means_ = 0;
  Progress report_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_PROGRESS_TRACKER_H_
