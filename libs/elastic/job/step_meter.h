// Measures how long steps take, and keeps the profile of it.
//
// Time between two steps of a loop, such as for reading samples, counts towards the next one; what is done at
// a step's end, such as a checkpoint, towards none.
//
// Thread-safety: the training thread only; the profile is thread-safe.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_STEP_METER_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_STEP_METER_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "libs/elastic/profile/step_profile.h"

namespace adaptdl::elastic {

class StepMeter {
 public:
  // Monotonic.
  explicit StepMeter(std::function<double()> seconds) : seconds_(std::move(seconds)) {}

  StepProfile& profile() { return profile_; }
  const StepProfile& profile() const { return profile_; }

  // A micro-batch begins; is complete.
  void BeginMicroBatch();
  void FinishMicroBatch();
  // So many seconds of the step went into exchanging gradients.
  void AddSync(double seconds) { sync_time_ += seconds; }
  void ClearSync() { sync_time_ = 0; }

  struct StepTime {
    double seconds = 0;
    // The first step of a process is slow, and says nothing.
    bool first = false;
    // Whether it went into the profile.
    bool profiled = false;
  };
  // The last micro-batch of a step is complete. `typical`: whether its time says something about `key`.
  StepTime FinishStep(const ProfileKey& key, bool typical);

  // Forgets the micro-batches of the step in progress.
  void DropTimes() { times_.clear(); }
  // The next micro-batch's time begins now; or when it does.
  void Resume() { begin_ = seconds_(); }
  void Pause() { begin_ = 0; }

 private:
  const std::function<double()> seconds_;
  StepProfile profile_;
  // When the micro-batch in progress began. 0: none did.
  double begin_ = 0;
  // Of the micro-batches of the step in progress that are complete.
  std::vector<double> times_;
  double sync_time_ = 0;
  // Steps of this process.
  int64_t steps_ = 0;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_STEP_METER_H_
