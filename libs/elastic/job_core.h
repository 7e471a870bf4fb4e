// The inside of a Job: requests to stop or checkpoint, their agreement between replicas, states, progress.
//
// How a stop or checkpoint comes about: anybody raises a request on any replica (signal, command, timer). It
// rides as a few extra numbers on the gradient all-reduce of the next step (LocalSignals, AgreeOn), so that
// all replicas know of it after the same step, and is carried out when that step is complete (StepBoundary).
//
// Thread-safety: the training thread only, except where a method says otherwise.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_CORE_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_CORE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "adaptdl/accumulator.h"
#include "adaptdl/job.h"
#include "libs/base/mutex.h"
#include "libs/comm/communicator.h"
#include "libs/elastic/checkpoint_store.h"
#include "libs/elastic/checkpoint_writer.h"
#include "libs/elastic/control_plane.h"
#include "libs/elastic/environment.h"
#include "libs/elastic/hints_reporter.h"
#include "libs/elastic/replay_state.h"
#include "libs/elastic/step_profile.h"

namespace adaptdl::elastic {

struct JobDependencies {
  // Whatever the communicator needs to live on; destroyed last.
  std::shared_ptr<void> keep_alive;
  Environment environment;
  GroupMembership membership;
  std::unique_ptr<ControlPlane> control;
  std::unique_ptr<comm::Communicator> communicator;
  // Ends the process with this code. Must not return (a test's may throw).
  std::function<void(int code)> exit;
  // Called when the job begins to end: no request may come from then on.
  std::function<void()> on_end = nullptr;
  // Monotonic seconds.
  std::function<double()> seconds;
  // Passed on to the checkpoint store.
  std::function<absl::Status(absl::string_view)> before_checkpoint_step = nullptr;
  // Longest that a replica that was asked to stop waits for the others.
  absl::Duration stop_timeout = absl::Seconds(20);
  // Longest that a process that ends waits for its last checkpoint to be written.
  absl::Duration write_timeout = absl::Seconds(25);
};

class JobCore final : public ControlObserver {
 public:
  // Collective. Reads the newest checkpoint on rank 0 and hands it to all replicas.
  static absl::StatusOr<std::unique_ptr<JobCore>> Create(JobDependencies dependencies);
  ~JobCore() override;

  const GroupMembership& membership() const { return membership_; }
  const Environment& environment() const { return environment_; }
  comm::Communicator& communicator() { return *communicator_; }
  ReplayState& replay() { return replay_; }
  StepProfile& profile() { return profile_; }
  int64_t optimizer_steps() const { return optimizer_steps_; }
  double Seconds() const { return dependencies_.seconds(); }

  // Whether the restored checkpoint held it.
  bool Register(CheckpointState* state);
  void Unregister(CheckpointState* state);
  void Attach(Accumulator* accumulator) { accumulators_.push_back(accumulator); }
  void Detach(Accumulator* accumulator);

  // From any thread.
  void RequestStop(const std::string& reason);
  void RequestCheckpoint(const std::string& reason);
  void OnCheckpointCommand(const std::string& reason) override { RequestCheckpoint(reason); }
  void OnStopCommand(const std::string& reason) override { RequestStop(reason); }
  void OnFenced(const std::string& reason) override;

  // What this replica wants all to know, as numbers to be summed over the replicas. They may travel as
  // float32: each is a whole number, and its sum below 2^24.
  struct Signals {
    static constexpr int kCount = 2;
    double stop = 0;
    double checkpoint = 0;

    std::array<double, kCount> numbers() const { return {stop, checkpoint}; }
    static Signals Of(absl::Span<const double> numbers) { return {numbers[0], numbers[1]}; }
  };
  Signals LocalSignals() { return LocalSignals(/*in_step=*/true); }
  // The sums. Said once per collective that carried them.
  void AgreeOn(const Signals& sums);

  // The samples of the forward and backward pass in progress.
  struct MicroBatch {
    // Those of this replica that count.
    int64_t local = 0;
    // Those of the whole optimiser step: of all replicas and all of its micro-batches. 0: no loop.
    int64_t step_total = 0;
    // Whether the gradients are exchanged and the optimiser runs after it.
    bool last = true;
    // Total batch size that was chosen, divided by the initial one; a short last batch does not change it.
    double scale = 1;
  };
  void SetMicroBatch(const MicroBatch& micro_batch) { micro_batch_ = micro_batch; }
  const MicroBatch& micro_batch() const { return micro_batch_; }

  // A step of a data loader's loop begins, and is complete; measures it. FinishStep() ends with
  // StepBoundary(). EndSteps(): the loop is over. `samples` were consumed of a total batch of `total`, of
  // which one replica has at most `local`; the pass is at sample `position` of `pass_size` now.
  void BeginStep();
  void EndSteps() { step_start_ = 0; }
  void FinishStep(int64_t samples, int64_t total, int64_t local, int64_t position, int64_t pass_size);

  // Around whatever waits for other replicas.
  void BeginWait() { waiting_since_ = Seconds(); }
  void EndWait() { waiting_since_ = -1; }

  // The gradients of the step in progress were applied; `sync_time`: seconds spent on exchanging them.
  // `gain`: how many steps at the initial batch size it was worth. Of several models' steps in one step the
  // first counts.
  void OnOptimizerStep(double sync_time, double gain = 1);
  // Steps at the initial batch size that all steps since the job began were worth.
  double scale_invariant_steps() const { return scale_invariant_steps_; }
  // The step in progress is complete: carries out what was agreed on. If no collective carried the flags
  // since the last call, one is made for them. May end the process.
  void StepBoundary();

  // Collective. Checkpoints now, and returns on all replicas when that is written. False: it is not.
  bool SaveAll();
  // Waits until every snapshot is written, or not. This replica's only.
  void AwaitWriter();

  // Every epoch is done: checkpoints, and lets the end of the job wait for all replicas.
  void OnTrainingDone();

  void SetTotalEpochs(int epochs) { progress_.total_epochs = epochs; }
  // The epoch in progress is done, or none of it yet.
  void OnEpochBoundary();

  // Ends the process because of `status`: a lost peer is 75, anything else the program's own failure.
  [[noreturn]] void Fail(const absl::Status& status);
  // Fails unless OK.
  void Check(const absl::Status& status) {
    if (!status.ok()) Fail(status);
  }
  // Ends the process because the program uses the library wrongly.
  [[noreturn]] void FailUsage(const std::string& text);

 private:
  void ReportProgress();
  explicit JobCore(JobDependencies dependencies);

  absl::Status Restore();
  void Measure(int64_t samples, int64_t total, int64_t local);
  bool LoadState(CheckpointState* state);
  // `in_step`: whether the optimiser is about to take a step.
  Signals LocalSignals(bool in_step);
  void ExitIfFenced();
  [[noreturn]] void Exit(int code);
  // Collective. Takes a snapshot of all states; whether this replica's writer has one to write.
  bool SaveCheckpoint();
  void CollectStates(StateMap* states);
  void OnWritten(int64_t step, const absl::StatusOr<int64_t>& version);
  bool PeriodIsOver(bool in_step) const;
  void RunBackground();
  void WatchStop();

  JobDependencies dependencies_;
  const Environment& environment_;
  const GroupMembership& membership_;
  const std::unique_ptr<comm::Communicator>& communicator_;
  ReplayState replay_;
  StepProfile profile_;
  HintsReporter hints_;

  std::vector<CheckpointState*> states_;
  std::vector<Accumulator*> accumulators_;
  // States of the checkpoint that was restored; kept for those that register later or never.
  StateMap restored_;

  int64_t optimizer_steps_ = 0;
  double scale_invariant_steps_ = 0;
  int64_t saved_steps_ = 0;
  double last_checkpoint_ = 0;
  MicroBatch micro_batch_;
  bool stepped_ = false;
  double sync_time_ = 0;
  bool exchanged_ = false;
  Signals agreed_;
  bool training_done_ = false;
  Progress progress_;
  // Part of the epoch in progress that is done, by the last loop that took optimiser steps.
  double pass_fraction_ = 0;
  // Optimiser steps of a pass over the data set that is trained on. 0: unknown.
  int64_t pass_steps_ = 0;
  // When the step in progress began. Time between steps counts towards the next one.
  double step_start_ = 0;
  // Steps of this process that were finished; the first ones are slow and not measured.
  int64_t steps_seen_ = 0;

  // When the training thread began to wait for other replicas. Negative: it does not.
  std::atomic<double> waiting_since_{-1};

  Mutex mutex_;
  CondVar changed_;
  bool stop_requested_ ABSL_GUARDED_BY(mutex_) = false;
  bool checkpoint_requested_ ABSL_GUARDED_BY(mutex_) = false;
  bool fenced_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  // When stop_requested_ was set; negative once the stop is under way.
  double stop_time_ ABSL_GUARDED_BY(mutex_) = -1;
  std::thread background_;
  // Only on rank 0, and only where checkpoints are written. Its thread uses what stands above.
  std::unique_ptr<CheckpointWriter> writer_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_CORE_H_
