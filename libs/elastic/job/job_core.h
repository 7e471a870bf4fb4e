// The inside of a Job: requests to stop or checkpoint, their agreement between replicas, states, progress.
//
// How a stop or checkpoint comes about: anybody raises a request on any replica (signal, command, timer). It
// rides as a few extra numbers on the gradient all-reduce of the next step (LocalSignals, AgreeOn), so that
// all replicas know of it after the same step, and is carried out when that step is complete (StepBoundary).
// Rank 0's decisions on the batch size travel the same way; whatever needs more than a number is announced
// (Announce): the numbers say that there is something, and all replicas exchange it at the end of the step.
//
// Thread-safety: the training thread only, except where a method says otherwise.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_JOB_CORE_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_JOB_CORE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "adaptdl/accumulator.h"
#include "adaptdl/job.h"
#include "libs/base/mutex.h"
#include "libs/comm/communicator.h"
#include "libs/elastic/checkpoint/checkpoint_store.h"
#include "libs/elastic/checkpoint/checkpoint_writer.h"
#include "libs/elastic/control/control_plane.h"
#include "libs/elastic/control/environment.h"
#include "libs/elastic/group/group.h"
#include "libs/elastic/group/replay_state.h"
#include "libs/elastic/job/batch_size_controller.h"
#include "libs/elastic/profile/hints_reporter.h"
#include "libs/elastic/profile/step_patience.h"
#include "libs/elastic/profile/step_profile.h"
#include "libs/goodput/model.h"
#include "libs/goodput/optimize.h"

namespace adaptdl {
class AdaptiveDataLoader;
}

namespace adaptdl::elastic {

struct JobDependencies {
  // Whatever the communicator needs to live on; destroyed last.
  std::shared_ptr<void> keep_alive;
  Environment environment;
  std::shared_ptr<ControlPlane> control;
  Group::Transport transport;
  // States that are registered right after Create(): what a newcomer is handed of them goes where it belongs,
  // without a copy between.
  std::vector<CheckpointState*> expected;
  // Ends the process with this code. Must not return (a test's may throw).
  std::function<void(int code)> exit;
  // Called when the job begins to end: no request may come from then on.
  std::function<void()> on_end = nullptr;
  // Monotonic seconds.
  std::function<double()> seconds;
  // Called by the training thread: returns a clock that tells any thread how long the calling one has run, in
  // seconds of processor time. Null: nobody can tell.
  std::function<std::function<double()>()> thread_clock = nullptr;
  // Passed on to the checkpoint store.
  std::function<absl::Status(absl::string_view)> before_checkpoint_step = nullptr;
  // Longest that a replica that was asked to stop waits for the others.
  absl::Duration stop_timeout = absl::Seconds(20);
  // Longest that a process that ends waits for its last checkpoint to be written.
  absl::Duration write_timeout = absl::Seconds(25);
  // Time between decisions on the batch size.
  absl::Duration batch_decision_period = absl::Seconds(10);
  // Longest wait for the group that follows one that has lost members.
  absl::Duration plan_timeout = absl::Minutes(1);
};

class JobCore final : public ControlObserver, private Group::States {
 public:
  // Collective. Takes part in the job's group: takes over the state of those that train already; if there are
  // none, rank 0 reads the newest checkpoint and hands it to all replicas.
  static absl::StatusOr<std::unique_ptr<JobCore>> Create(JobDependencies dependencies);
  ~JobCore() override;

  // May change with each step (Subscribe to it with OnNewGroup()).
  const GroupMembership& membership() const { return group_.membership(); }
  const Environment& environment() const { return environment_; }
  // For what travels with each step. What fails on it is not redone, other than Gather().
  comm::Communicator& communicator() { return group_.communicator(); }

  // Collective: as Group::Gather(), but ends the process when it fails for good. Empty when the step in
  // progress is void, or has become so: the replicas do not run this part of the loop's body alike then.
  std::vector<std::string> Gather(const std::string& value);
  // The sum over all replicas, by Gather().
  int64_t SumOf(int64_t value);

  // `handler` is called when the group has changed, until it is set to null; `owner` is a key.
  // `keeps_step`: as in Group::States::OnNewGroup().
  void OnGroupChange(const void* owner, std::function<void(bool keeps_step)> handler);
  // While a lost replica would take with it what nobody else knows: its loss ends the process, and the job
  // goes on from its checkpoint. Nests.
  void ForbidRecovery(bool forbid) { group_.ForbidRecovery(forbid); }
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
  void OnPlan(const GroupPlan& plan) override { group_.OnPlan(plan); }
  Activity CurrentActivity() override;

  // What this replica wants all to know, as numbers to be summed over the replicas. They may travel as
  // float32: each is a whole number, and its sum below 2^24.
  struct Signals {
    static constexpr int kCount = 8;
    double stop = 0;
    double checkpoint = 0;
    // Replicas that have announced something.
    double news = 0;
    // The batch that rank 0 decided on, for as many replicas as `members` says. 0: none.
    double atomic_batch_size = 0;
    double micro_batches = 0;
    // Samples that streams have ready for the next step.
    double stream_samples = 0;
    // Replicas that hold a plan for the next group, and all of them.
    double plans = 0;
    double members = 0;

    std::array<double, kCount> numbers() const {
      return {stop, checkpoint, news, atomic_batch_size, micro_batches, stream_samples, plans, members};
    }
    static Signals Of(absl::Span<const double> numbers) {
      return {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6], numbers[7]};
    }
  };
  Signals LocalSignals() { return LocalSignals(/*in_step=*/true); }
  // The sums. Said once per collective that carried them, whichever group ran it: they say all by themselves
  // what was agreed on, so that members that learn of it in another group come to the same.
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
    int64_t initial_batch_size = 1;
    // How often this replica has begun the optimiser step anew (with smaller micro-batches, after a failure
    // of memory). What it had gathered of the step before is void.
    int attempt = 0;
  };
  void SetMicroBatch(const MicroBatch& micro_batch) { micro_batch_ = micro_batch; }
  const MicroBatch& micro_batch() const { return micro_batch_; }

  // What an optimiser step of a data loader's loop was.
  struct StepSummary {
    // Consumed by all replicas together.
    int64_t samples = 0;
    // The total batch size that was chosen, and what it began with.
    int64_t batch_size = 1;
    int64_t init_batch_size = 1;
    // What gradient statistics are relative to. 0: the same.
    int64_t base_batch_size = 0;
    // Of the replica with the largest share: samples of one micro-batch, and number of micro-batches.
    int64_t atomic_batch_size = 1;
    int64_t micro_batches = 1;
    // Whether its time says something about this batch: it was not a short one, nor begun anew.
    bool typical = true;
    // What the job may use. max_batch_size 0: the batch size stays.
    goodput::BatchLimits limits;
    // Whether the batch was chosen for the present number of replicas.
    bool chosen = true;
    // Part of the loop that is done, and its length in steps at the initial batch size.
    double loop_fraction = 0;
    double loop_steps = 0;
  };

  // A micro-batch of a data loader's loop begins, and is complete; measures it. A step's last one is finished
  // by FinishStep(), which ends with StepBoundary(). EndSteps(): the loop is over.
  void BeginMicroBatch();
  void FinishMicroBatch();
  void FinishStep(const StepSummary& summary);
  void EndSteps();

  // The loader whose loop is in progress. Null: none.
  AdaptiveDataLoader* current_loader() const { return current_loader_; }
  void SetCurrentLoader(AdaptiveDataLoader* loader) { current_loader_ = loader; }

  // The batch that was decided on, the same on all replicas, and for how many of them.
  struct ChosenBatch {
    int64_t atomic_batch_size = 0;
    // Micro-batches per optimiser step. 0: nothing was decided yet.
    int64_t micro_batches = 0;
    int replicas = 0;
  };
  const ChosenBatch& chosen_batch() const { return chosen_batch_; }
  // On rank 0: lets all replicas change to this batch with the next step. Dropped if that is not one of
  // `group`, whose replicas it was chosen for. From any thread.
  void ProposeBatch(const goodput::BatchConfig& batch, int64_t group);
  // On rank 0: fits the throughput model to what was measured, and proposes a batch if that makes enough of a
  // difference. From any thread, one at a time.
  void DecideBatch();
  // At most one loader adapts its batch size at a time. False: another one does.
  bool StartAdapting(const AdaptiveDataLoader* loader);
  void StopAdapting(const AdaptiveDataLoader* loader);

  // Of the whole job: steps at the initial batch size that its last finished adaptive loop was worth beyond
  // its end. The next loop is the shorter for it.
  double progress_surplus() const { return progress_surplus_; }
  void SetProgressSurplus(double surplus) { progress_surplus_ = surplus; }

  // The model's gradient statistics at the base batch size; not finite ones are left out.
  void SetGradientStatistics(double sqr, double var);

  // Sends `text` to all replicas, this one included, to be handed to those who subscribed to `topic`, at the
  // end of the step whose exchange carries the news of it: in order of rank, on all replicas at the same
  // step.
  void Announce(const std::string& topic, const std::string& text);
  using NewsHandler = std::function<void(int rank, const std::string& text)>;
  // `handler` may be null: no more.
  void Subscribe(const std::string& topic, NewsHandler handler);

  // Samples that this replica has ready for its stream's next step; and the sum over all replicas, as of the
  // last exchange.
  void SetStreamSamples(int64_t samples) { stream_samples_ = samples; }
  int64_t agreed_stream_samples() const { return agreed_stream_samples_; }
  // Something of this step is on its way to the other replicas.
  void BeginExchange() { exchanging_ = true; }
  // Whether that is so, and the step cannot begin anew.
  bool exchanging() const { return exchanging_ || exchanged_; }

  // Around whatever waits for other replicas.
  void BeginWait() { waiting_since_ = Seconds(); }
  void EndWait() { waiting_since_ = -1; }

  // The exchange of the step's gradients is complete: ApplyExchange() and AgreeOn(sums) are to follow. Or it
  // has failed, for `failure`: returns once the group is rebuilt, with what became of the step. If it was
  // taken elsewhere, all states, and what was agreed on, are as after it.
  void CompleteExchange() { group_.CompleteExchange(); }
  Group::StepFate RecoverStep(const absl::Status& failure);
  // The exchange has failed; RecoverStep() follows, here or in the next collective if that comes first.
  void NoteFailedExchange(const absl::Status& failure) { exchange_failure_ = failure; }
  // What the exchange gave is being applied now.
  void ApplyExchange() { group_.ApplyExchange(); }
  // Whether the step in progress came to nothing: the loop's body is to be run again on samples that are
  // dealt out anew, and what it does until then counts for nothing.
  bool step_is_void() const { return step_void_; }
  // A new attempt begins.
  void ClearVoidStep();
  // Of the last step that was taken.
  double last_gain() const { return last_gain_; }

  // The gradients of the step in progress were applied; `sync_time`: seconds spent on exchanging them.
  // `gain`: how many steps at the initial batch size it was worth. Of several models' steps in one step the
  // first counts.
  void OnOptimizerStep(double sync_time, double gain = 1);
  // Says whether the caller is the first model of the job: the one whose statistics count.
  bool ClaimLead() { return !std::exchange(has_lead_, true); }
  // Steps at the initial batch size that all steps since the job began were worth.
  double scale_invariant_steps() const { return scale_invariant_steps_; }
  // The step in progress is complete: carries out what was agreed on. If no collective carried the flags
  // since the last call, one is made for them. May end the process. `may_rescale`: whether a replica that
  // starts now would find this place in the program again.
  void StepBoundary(bool may_rescale = false);

  // Collective. Checkpoints now, and returns on all replicas when that is written. False: it is not.
  bool SaveNow();
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
  explicit JobCore(JobDependencies dependencies);

  // Of Group::States.
  absl::Status SendAll(comm::Communicator& communicator) override;
  absl::Status ReceiveAll(comm::Communicator& communicator, int source) override;
  void SaveStep(StateMap* states) override;
  absl::Status LoadStep(const StateMap& states) override;
  void OnNewGroup(bool keeps_step) override;

  void ReportProgress();
  void VoidStep();

  class Receiver;

  absl::Status Restore();
  absl::Status LoadAll(StateMap states);
  // For what may be received.
  void ReserveMemory();
  void SetUpRank();
  void FollowPlan();
  void MergeStates();
  void Measure(const StepSummary& summary);
  void ExchangeNews();
  void MaybeDecideBatch(double now);
  bool LoadState(CheckpointState* state);
  // Those that are no registered state's.
  StateMap OwnStates();
  // `in_step`: whether the optimiser is about to take a step.
  Signals LocalSignals(bool in_step);
  void ExitIfFenced();
  [[noreturn]] void Exit(int code);
  // Collective. Takes a snapshot of all states; whether this replica's writer has one to write.
  bool SaveCheckpoint();
  absl::Status AwaitWritten(absl::Duration timeout);
  void CollectStates(StateMap* states);
  void OnWritten(int64_t step, const absl::StatusOr<int64_t>& version);
  bool PeriodIsOver(bool in_step) const;
  void RunBackground();
  void WatchStop();
  void WatchTraining();

  JobDependencies dependencies_;
  const Environment& environment_;
  Group group_;
  std::map<const void*, std::function<void(bool keeps_step)>> group_handlers_;
  ReplayState replay_;
  StepProfile profile_;
  HintsReporter hints_;

  std::vector<CheckpointState*> states_;
  std::vector<Accumulator*> accumulators_;
  // States of the checkpoint that was restored; kept for those that register later or never.
  StateMap restored_;
  // Expected states that hold what another replica's did, and were not registered yet.
  std::set<CheckpointState*> received_;
  // Whether something here is another replica's, if only in part because that was lost meanwhile.
  bool has_others_state_ = false;

  int64_t optimizer_steps_ = 0;
  double scale_invariant_steps_ = 0;
  bool has_lead_ = false;
  int64_t saved_steps_ = 0;
  double last_checkpoint_ = 0;
  MicroBatch micro_batch_;
  // Whether samples of a loop's step were dealt out that is not finished.
  bool in_step_ = false;
  bool stepped_ = false;
  bool step_void_ = false;
  // Of the step in progress.
  absl::Status exchange_failure_;
  double last_gain_ = 0;
  // What was agreed on with the last step.
  Signals last_signals_;
  double sync_time_ = 0;
  bool exchanging_ = false;
  bool exchanged_ = false;
  Signals agreed_;
  bool training_done_ = false;
  Progress progress_;
  // Part of the epoch in progress that is done, by the last loop that took optimiser steps.
  double pass_fraction_ = 0;
  // Length of an epoch's loop in steps at the initial batch size. 0: unknown.
  double pass_steps_ = 0;
  // When the micro-batch in progress began. Time between steps counts towards the next one.
  double step_start_ = 0;
  // Times of the micro-batches of the step in progress that are complete.
  std::vector<double> micro_batch_times_;
  // Steps of this process that were finished; the first ones are slow and not measured.
  int64_t steps_seen_ = 0;

  AdaptiveDataLoader* current_loader_ = nullptr;
  const AdaptiveDataLoader* adaptive_loader_ = nullptr;
  ChosenBatch chosen_batch_;
  double progress_surplus_ = 0;
  int64_t stream_samples_ = 0;
  int64_t agreed_stream_samples_ = 0;
  std::map<std::string, NewsHandler> news_handlers_;
  // Topics and texts that were not exchanged yet.
  std::vector<std::pair<std::string, std::string>> news_;
  BatchSizeController controller_;
  // The base batch size by the one that hints are relative to.
  double base_share_ = 1;
  // Whether an earlier run of the job has measured steps.
  bool restored_profile_ = false;
  // Of the background thread: when it looked for a better batch.
  double last_decision_ = 0;

  // Whether this is rank 0, for the background thread.
  std::atomic<bool> leads_{false};
  // When the training thread began to wait for other replicas. Negative: it does not.
  std::atomic<double> waiting_since_{-1};
  StepPatience step_patience_;
  // As of now, and when the training thread was last seen to run.
  std::atomic<double> patience_{0};
  std::atomic<double> ran_at_{0};
  // While the training thread waits for storage it is not idle.
  std::atomic<bool> writes_{false};
  // Processor time of the thread that made this object, and what the background thread has seen of it; it
  // says nothing where another one trains.
  const std::thread::id created_by_ = std::this_thread::get_id();
  std::atomic<bool> trains_elsewhere_{false};
  std::function<double()> thread_clock_;
  double thread_time_ = -1;

  Mutex mutex_;
  CondVar changed_;
  bool stop_requested_ ABSL_GUARDED_BY(mutex_) = false;
  bool checkpoint_requested_ ABSL_GUARDED_BY(mutex_) = false;
  bool fenced_ ABSL_GUARDED_BY(mutex_) = false;
  // What rank 0 decided and has not been agreed on.
  struct ProposedBatch {
    goodput::BatchConfig batch;
    int64_t group = 0;
  };
  std::optional<ProposedBatch> proposed_batch_ ABSL_GUARDED_BY(mutex_);
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  // When stop_requested_ was set; negative once the stop is under way.
  double stop_time_ ABSL_GUARDED_BY(mutex_) = -1;
  std::thread background_;
  // Only on rank 0, and only where checkpoints are written. Its thread uses what stands above. The training
  // thread's; what other threads may see of it, to cancel it, comes next.
  std::unique_ptr<CheckpointWriter> writer_;
  CheckpointWriter* cancellable_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_JOB_CORE_H_
