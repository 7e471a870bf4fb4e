// When the job writes a checkpoint, and the writing of it. Anybody may ask for one on any replica, rank 0
// also does when its period is over; all agree on the step, and rank 0 writes it while training goes on.
//
//   Request() or period ──agreed on──▶ agreed() ──Save()──▶ snapshot ──writing thread──▶ told on stderr, and
//   to
//                                                                                        the control plane
//
// Thread-safety: the training thread, except where a method says otherwise.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_CHECKPOINT_COORDINATOR_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_CHECKPOINT_COORDINATOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libs/base/mutex.h"
#include "libs/elastic/checkpoint/checkpoint_store.h"
#include "libs/elastic/checkpoint/checkpoint_writer.h"
#include "libs/elastic/control/control_plane.h"
#include "libs/elastic/job/progress_tracker.h"
#include "libs/elastic/job/step_agreement.h"
#include "libs/elastic/job/training_watch.h"
#include "nlohmann/json_fwd.hpp"

namespace adaptdl::elastic {

class CheckpointCoordinator final : public SignalSource {
 public:
  struct Options {
    // Empty: nothing is written.
    std::string folder = {};
    // Another job's checkpoints, to begin with where there is none in `folder`. Empty: none.
    std::string start_folder = {};
    // Complete checkpoints that stay.
    int keep = 2;
    // Between two checkpoints. Steps: 0: by time.
    absl::Duration period = absl::InfiniteDuration();
    int64_t period_steps = 0;
    // Passed on to the checkpoint store.
    std::function<absl::Status(absl::string_view)> before_step = nullptr;
    // Monotonic.
    std::function<double()> seconds = nullptr;
    // A newer group has written: this replica is not wanted any more. Called by the writing thread.
    std::function<void(const std::string& reason)> on_superseded = nullptr;
  };

  // None of the pointers is owned.
  CheckpointCoordinator(Options options, const ProgressTracker* progress, TrainingWatch* watch,
                        ControlPlane* control);
  // After Close().
  ~CheckpointCoordinator() override = default;

  // Rank 0 writes, as a member of `membership`.
  void SetMembership(const GroupMembership& membership);
  // The period begins.
  void Start() { last_ = options_.seconds(); }

  // States of the newest checkpoint, on rank 0; without one, those of the one to start from. Empty: there is neither, or this
  // is another rank. NOT_FOUND: there is nothing where it was to start from.
  absl::StatusOr<StateMap> LoadNewest();

  // From any thread. `reason`: for people.
  void Request(const std::string& reason);
  bool agreed() const { return agreed_; }
  // What was asked for is done now.
  void Settle();

  // Takes a snapshot of what `collect` adds to states (of an earlier snapshot, for their memory), to be
  // written. Whether this replica has one to write. An exception of `collect` costs the checkpoint.
  bool Save(const std::function<void(StateMap* states)>& collect);
  // Whether steps were taken since the last checkpoint.
  bool behind() const { return progress_->optimizer_steps() > saved_steps_; }
  // Until all that this replica writes is written, or not; as CheckpointWriter::Await().
  absl::Status AwaitWritten(absl::Duration timeout = absl::InfiniteDuration());

  // Nothing is written any more. From any thread.
  void Cancel();
  // Finishes the last checkpoint. Nothing else may be called then but Cancel().
  void Close();

  // Into the job's state, and from it; after the progress.
  void SaveTo(nlohmann::json* job) const;
  void LoadFrom(const nlohmann::json& job);

  size_t num_signals() const override { return 1; }
  void Offer(bool in_step, absl::Span<double> signals) override;
  void OnAgreed(absl::Span<const double> sums, int members) override;

 private:
  absl::StatusOr<StateMap> LoadStart() const;
  bool PeriodIsOver(bool in_step) const;
  void OnWritten(int64_t step, const absl::StatusOr<int64_t>& version);

  const Options options_;
  const ProgressTracker* const progress_;
  TrainingWatch* const watch_;
  ControlPlane* const control_;
  bool leads_ = false;
  bool agreed_ = false;
  // As of the last checkpoint.
  int64_t saved_steps_ = 0;
  double last_ = 0;

  Mutex mutex_;
  bool requested_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  // Once this was rank 0. The training thread's; what other threads may see of it, to cancel it, comes next.
  std::unique_ptr<CheckpointWriter> writer_;
  CheckpointWriter* cancellable_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_CHECKPOINT_COORDINATOR_H_
