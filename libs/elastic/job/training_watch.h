// Who waits for whom: what the training thread of this replica does, seen by a thread that is not held up by
// it, so that heartbeats can say when it hangs.
//
//   training thread     BeginWait() ... EndWait()   BeginStorage() ... EndStorage()   AddStep()
//   background thread   Tick(), now and then
//   any thread          CurrentActivity()
//
// It is idle when it runs nothing, waits neither for replicas nor for storage, and no other thread trains.
//
// Thread-safety: as above; made by the training thread.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_TRAINING_WATCH_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_TRAINING_WATCH_H_

#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include "libs/elastic/control/control_plane.h"
#include "libs/elastic/profile/step_patience.h"

namespace adaptdl::elastic {

class TrainingWatch {
 public:
  struct Options {
    // Seconds of patience at least.
    double least_patience = 0;
    // Monotonic seconds.
    std::function<double()> seconds;
    // Seconds of processor time of the thread that makes this object. Null: nobody can tell.
    std::function<double()> thread_clock = nullptr;
  };

  explicit TrainingWatch(Options options);

  // Around whatever waits for other replicas.
  void BeginWait() { waiting_since_ = options_.seconds(); }
  void EndWait() { waiting_since_ = -1; }
  // Around whatever waits for storage: that is no idling.
  void BeginStorage() { stores_ = true; }
  void EndStorage() { stores_ = false; }
  // The calling thread trains. If it is another one than made this object, nobody can tell whether it runs.
  void NoteTrainingThread();
  // An optimiser step took so many seconds.
  void AddStep(double seconds);
  // After so many seconds something is wrong. 0: not known yet.
  double patience() const { return patience_; }

  // Looks whether the training thread has run since the last time.
  void Tick();

  // When the training thread began to wait for other replicas. Negative: it does not. From any thread.
  double waiting_since() const { return waiting_since_; }
  // From any thread. `standing` is asked if the training thread waits for other replicas.
  Activity CurrentActivity(const std::function<std::optional<Standing>()>& standing) const;

 private:
  const Options options_;
  const std::thread::id made_by_ = std::this_thread::get_id();
  StepPatience step_patience_;
  std::atomic<double> patience_{0};
  std::atomic<double> waiting_since_{-1};
  std::atomic<bool> stores_{false};
  std::atomic<bool> trains_elsewhere_{false};
  // When the training thread was last seen to run, and its processor time then (the background thread's).
  std::atomic<double> ran_at_{0};
  double thread_time_ = -1;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_TRAINING_WATCH_H_
