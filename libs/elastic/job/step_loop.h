// The training thread's way through its steps: measures them, and carries out at the end of each what the
// replicas have agreed on.
//
// How a stop or checkpoint comes about: anybody raises a request on any replica (signal, command, timer). It
// rides as a number on the gradient all-reduce of the next step (StepAgreement), so that all replicas know of
// it after the same step, and is carried out when that step is complete (StepBoundary). Rank 0's decisions on
// the batch size travel the same way; whatever needs more than a number is announced (NewsBus).
//
// Thread-safety: the training thread only; stop() as it says.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_STEP_LOOP_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_STEP_LOOP_H_

#include <functional>
#include <vector>

#include "absl/time/time.h"
#include "libs/elastic/checkpoint/checkpoint_store.h"
#include "libs/elastic/control/control_plane.h"
#include "libs/elastic/group/replay_state.h"
#include "libs/elastic/job/batch_decider.h"
#include "libs/elastic/job/checkpoint_coordinator.h"
#include "libs/elastic/job/ending.h"
#include "libs/elastic/job/news_bus.h"
#include "libs/elastic/job/progress_tracker.h"
#include "libs/elastic/job/reported_metrics.h"
#include "libs/elastic/job/step_agreement.h"
#include "libs/elastic/job/step_meter.h"
#include "libs/elastic/job/step_summary.h"
#include "libs/elastic/job/step_sums.h"
#include "libs/elastic/job/stop_request.h"
#include "libs/elastic/job/team.h"
#include "libs/elastic/job/training_watch.h"

namespace adaptdl {
class AdaptiveDataLoader;
}

namespace adaptdl::elastic {

class StepLoop {
 public:
  // Parts of the job; none is owned.
  struct Parts {
    ControlPlane* control = nullptr;
    Ending* ending = nullptr;
    TrainingWatch* watch = nullptr;
    ReplayState* replay = nullptr;
    ProgressTracker* progress = nullptr;
    ReportedMetrics* metrics = nullptr;
    StepMeter* meter = nullptr;
    BatchDecider* batches = nullptr;
    CheckpointCoordinator* checkpoints = nullptr;
    Team* team = nullptr;
  };
  struct Options {
    absl::Duration stop_timeout = absl::Seconds(20);
    // Monotonic.
    std::function<double()> seconds;
    // Makes known to all replicas what is spread over them; then puts all states of the job into `*states`.
    std::function<void()> sync_states;
    std::function<void(StateMap* states)> collect_states;
  };

  StepLoop(const Parts& parts, const Options& options);

  StopRequest& stop() { return stop_; }
  NewsBus& news() { return news_; }
  LoopSignal& signal() { return signal_; }
  StepAgreement& agreement() { return agreement_; }

  // Sums that are told of the steps, and are part of checkpoints. Not owned.
  void Attach(StepSums* sums) { sums_.push_back(sums); }
  void Detach(StepSums* sums) { std::erase(sums_, sums); }

  // The loader whose loop is in progress. Null: none.
  AdaptiveDataLoader* current_loader() const { return current_loader_; }
  void SetCurrentLoader(AdaptiveDataLoader* loader) { current_loader_ = loader; }

  // A micro-batch of a data loader's loop begins, and is complete; measures it. A step's last one is finished
  // by FinishStep(), which ends with StepBoundary(). EndSteps(): the loop is over.
  void BeginMicroBatch();
  // Its samples are there.
  void MarkRead() { parts_.meter->MarkRead(); }
  void FinishMicroBatch() { parts_.meter->FinishMicroBatch(); }
  void FinishStep(const StepSummary& summary);
  void EndSteps();

  // The sums that StepAgreement::Local() gave: what was agreed on with this step.
  void AgreeOn(absl::Span<const double> sums);
  // The gradients of the step in progress were applied; `sync_time`: seconds spent on exchanging them.
  // `gain`: how many steps at the initial batch size it was worth. Of several models' steps in one step the
  // first counts.
  void OnOptimizerStep(double sync_time, double gain = 1);
  // The step in progress came to nothing, and a new attempt begins.
  void RestartStep();
  // The step in progress is complete: carries out what was agreed on. If no collective carried the signals
  // since the last call, one is made for them. May end the process. `may_rescale`: whether a replica that
  // starts now would find this place in the program again.
  void StepBoundary(bool may_rescale = false);

  // Collective. Checkpoints now, and returns on all replicas when that is written. False: it is not.
  bool SaveNow();
  // The epoch in progress is done, or none of it yet.
  void OnEpochBoundary();
  // Every epoch is done: checkpoints, and lets the end of the job wait for all replicas.
  void OnTrainingDone();
  bool training_done() const { return training_done_; }

 private:
  void Measure(const StepSummary& summary);
  void ReportProgress();
  void AgreeByGather();
  // Whether it has merged the states for that.
  bool FollowPlan();
  // Collective.
  void MergeStates();
  // Takes a snapshot of all states, which are merged; whether this replica's writer has one to write.
  bool SaveCheckpoint();
  StepInProgress& step() { return parts_.team->step(); }

  const Parts parts_;
  const Options options_;
  StopRequest stop_;
  NewsBus news_;
  LoopSignal signal_;
  StepAgreement agreement_;
  std::vector<StepSums*> sums_;
  AdaptiveDataLoader* current_loader_ = nullptr;
  bool training_done_ = false;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_STEP_LOOP_H_
