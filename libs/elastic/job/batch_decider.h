// The batch size of a job that adapts it: rank 0 decides, proposes, and all replicas change over with the
// next step's agreement.
//
//   measured steps, gradient statistics ──Tick()──▶ Decide() ──▶ Propose() ──agreed on──▶ chosen()
//
// What the decision is made of goes to the scheduler as hints, too.
//
// Thread-safety: the training thread, except where a method says otherwise.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_BATCH_DECIDER_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_BATCH_DECIDER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libs/base/mutex.h"
#include "libs/elastic/control/control_plane.h"
#include "libs/elastic/job/batch_size_controller.h"
#include "libs/elastic/job/step_agreement.h"
#include "libs/elastic/job/step_summary.h"
#include "libs/elastic/profile/hints_reporter.h"
#include "libs/elastic/profile/step_profile.h"
#include "libs/goodput/optimize.h"
#include "nlohmann/json_fwd.hpp"

namespace adaptdl::elastic {

// The batch that was decided on, the same on all replicas, and for how many of them.
struct ChosenBatch {
  int64_t atomic_batch_size = 0;
  // Micro-batches per optimiser step. 0: nothing was decided yet.
  int64_t micro_batches = 0;
  int replicas = 0;
};

class BatchDecider final : public SignalSource {
 public:
  struct Options {
    // Longest time between decisions.
    absl::Duration period = absl::Seconds(10);
    HintsReporter::Options hints;
  };

  // Neither is owned.
  BatchDecider(const Options& options, const StepProfile* profile, ControlPlane* control)
      : options_(options), profile_(profile), hints_(profile, control, options.hints) {}

  // On what the job runs now. Of rank 0, the one that decides, in group `membership`.
  void SetMembership(const GroupMembership& membership);

  const ChosenBatch& chosen() const { return chosen_; }
  // On rank 0: lets all replicas change to this batch with the next step. Dropped if that is not one of
  // `group`, whose replicas it was chosen for. From any thread.
  void Propose(const goodput::BatchConfig& batch, int64_t group);
  // On rank 0: fits the throughput model to what was measured, and proposes a batch if that makes enough of a
  // difference. From any thread, one at a time.
  void Decide();
  // On rank 0: decides and reports hints when it is time to. `now`: monotonic seconds. By one background
  // thread; blocks as ControlPlane::ReportHints() does.
  void Tick(double now);

  // At most one loader adapts its batch size at a time; `loader` is a key. False: another one does.
  bool StartAdapting(const void* loader);
  void StopAdapting(const void* loader);

  // A step was taken.
  void OnStep(const StepSummary& summary);
  // The model's gradient statistics at the base batch size; not finite ones are left out.
  void SetGradientStatistics(double sqr, double var);
  // Says whether the caller is the first model of the job: the one whose statistics count.
  bool ClaimLead() { return !std::exchange(has_lead_, true); }

  // Into the job's state, and from it, with a profile that steps of an earlier run are in.
  void Save(nlohmann::json* job) const;
  void Load(const nlohmann::json& job);

  size_t num_signals() const override { return 2; }
  void Offer(bool in_step, absl::Span<double> signals) override;
  void OnAgreed(absl::Span<const double> sums, int members) override;

 private:
  void MaybeDecide(double now);

  const Options options_;
  const StepProfile* const profile_;
  HintsReporter hints_;
  BatchSizeController controller_;
  ChosenBatch chosen_;
  const void* adaptive_loader_ = nullptr;
  bool has_lead_ = false;
  // The base batch size by the one that hints are relative to.
  double base_share_ = 1;
  // For the background thread: whether this is rank 0, and whether an earlier run of the job has measured
  // steps.
  std::atomic<bool> leads_{false};
  std::atomic<bool> knows_profile_{false};
  // Of the background thread: when it looked for a better batch.
  double last_decision_ = 0;

  Mutex mutex_;
  // What rank 0 decided and has not been agreed on.
  std::optional<BatchSizeController::Decision> proposed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_BATCH_DECIDER_H_
