// The inside of a Job, put together from its parts.
//
//   ending       how this replica ends                 team         the replicas, and the step in progress
//   watch        who waits for whom                    loop         steps, and what is agreed on with each
//   progress     how far the job is                    states       what the job is, as named states
//   meter        how long steps take                   checkpoints  when those are written
//   batches      which batch size they have            replay       where in the program it is
//   metrics      what the program reports of itself
//
// Its own work is their life: they meet the other replicas, take over the state of those that train already
// or of the newest checkpoint, and end together. It is what the control plane and the group talk to.
//
// Thread-safety: the training thread only, except where a method says otherwise. Parts say their own.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_JOB_CORE_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_JOB_CORE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "adaptdl/job.h"
#include "libs/comm/communicator.h"
#include "libs/elastic/checkpoint/checkpoint_store.h"
#include "libs/elastic/control/control_plane.h"
#include "libs/elastic/control/environment.h"
#include "libs/elastic/group/group.h"
#include "libs/elastic/group/replay_state.h"
#include "libs/elastic/host/host.h"
#include "libs/elastic/job/background.h"
#include "libs/elastic/job/batch_decider.h"
#include "libs/elastic/job/checkpoint_coordinator.h"
#include "libs/elastic/job/ending.h"
#include "libs/elastic/job/progress_tracker.h"
#include "libs/elastic/job/reported_metrics.h"
#include "libs/elastic/job/state_registry.h"
#include "libs/elastic/job/step_loop.h"
#include "libs/elastic/job/step_meter.h"
#include "libs/elastic/job/team.h"
#include "libs/elastic/job/training_watch.h"

namespace adaptdl::elastic {

struct JobDependencies {
  // Whatever the communicator needs to live on; destroyed last.
  std::shared_ptr<void> keep_alive;
  Environment environment;
  std::shared_ptr<ControlPlane> control;
  Group::Transport transport;
  // The process that the job lives in.
  std::shared_ptr<Host> host;
  // States that are registered right after Create(): what a newcomer is handed of them goes where it belongs,
  // without a copy between.
  std::vector<CheckpointState*> expected;
  // Called when the job begins to end: no request may come from then on.
  std::function<void()> on_end = nullptr;
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

class JobCore final : private ControlObserver, private Group::States {
 public:
  // Collective. Takes part in the job's group: takes over the state of those that train already; if there are
  // none, rank 0 reads the newest checkpoint and hands it to all replicas.
  static absl::StatusOr<std::unique_ptr<JobCore>> Create(JobDependencies dependencies);
  ~JobCore() override;

  // From any thread. `reason`: for people.
  void RequestStop(const std::string& reason) { loop_.stop().Request(reason); }
  void RequestCheckpoint(const std::string& reason) { checkpoints_.Request(reason); }

  const Environment& environment() const { return dependencies_.environment; }
  // Monotonic.
  double Seconds() const { return dependencies_.host->Seconds(); }
  const std::shared_ptr<Host>& host() const { return dependencies_.host; }

  Ending& ending() { return ending_; }
  TrainingWatch& watch() { return watch_; }
  ReplayState& replay() { return replay_; }
  ProgressTracker& progress() { return progress_; }
  ReportedMetrics& metrics() { return metrics_; }
  StepMeter& meter() { return meter_; }
  BatchDecider& batches() { return batches_; }
  StateRegistry& states() { return states_; }
  CheckpointCoordinator& checkpoints() { return checkpoints_; }
  Team& team() { return team_; }
  StepInProgress& step() { return team_.step(); }
  StepLoop& loop() { return loop_; }
  NewsBus& news() { return loop_.news(); }

 private:
  explicit JobCore(JobDependencies dependencies);

  // Of ControlObserver, from the control plane's threads.
  void OnCheckpointCommand(const std::string& reason) override { RequestCheckpoint(reason); }
  void OnStopCommand(const std::string& reason) override;
  void OnFenced(const std::string& reason) override;
  void OnPlan(const GroupPlan& plan) override { team_.group().OnPlan(plan); }
  Activity CurrentActivity() override;
  std::vector<ReportedMetric> LatestMetrics() override { return metrics_.Latest(); }

  // Of Group::States.
  absl::Status SendAll(comm::Communicator& communicator) override;
  absl::Status ReceiveAll(comm::Communicator& communicator, int source) override;
  void SaveStep(StateMap* states) override;
  absl::Status LoadStep(const StateMap& states) override;
  void OnNewGroup(bool keeps_step) override;

  // What depends on the place in the group.
  void SetUpRank();
  absl::Status Restore();
  // States that are no registered one's; and taken over from those that were restored.
  StateMap OwnStates();
  absl::Status LoadOwnStates();
  void FinishWriting();
  // Of the background thread.
  void Tick();

  const JobDependencies dependencies_;
  Ending ending_;
  TrainingWatch watch_;
  ReplayState replay_;
  ProgressTracker progress_;
  ReportedMetrics metrics_;
  StepMeter meter_;
  BatchDecider batches_;
  StateRegistry states_;
  CheckpointCoordinator checkpoints_;
  Team team_;
  StepLoop loop_;
  Background background_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_JOB_CORE_H_
