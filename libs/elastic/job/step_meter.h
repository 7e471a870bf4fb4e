// Measures how long steps take, and keeps the profile of it.
//
// Time between two steps of a loop, such as for reading samples, counts towards the next one; what is done at
// a step's end, such as a checkpoint, towards none. Of a micro-batch's time, what passes until its samples were read is
// that of waiting for them: on a device, what this leaves it without work. On a device that works behind the caller's back a step's time is known
// some steps later.
//
// Thread-safety: the training thread only; the profile is thread-safe.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_STEP_METER_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_STEP_METER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "libs/device/device.h"
#include "libs/elastic/job/step_clock.h"
#include "libs/elastic/profile/step_profile.h"

namespace adaptdl::elastic {

class StepMeter {
 public:
  // Monotonic.
  explicit StepMeter(std::function<double()> seconds) : clock_(std::move(seconds)) {}

  StepProfile& profile() { return profile_; }
  const StepProfile& profile() const { return profile_; }

  // Where steps run, as StepClock has it. What was not known yet is forgotten.
  void UseDevice(device::Device* device, std::function<device::Stream()> stream);

  // A micro-batch begins; is complete.
  void BeginMicroBatch();
  void FinishMicroBatch();
  // The micro-batch's samples are there: what follows is computation. Not called: all of it is.
  void MarkRead();
  // So many seconds of the step went into exchanging gradients.
  void AddSync(double seconds) { sync_time_ += seconds; }
  void ClearSync() { sync_time_ = 0; }

  // What a step was.
  struct Kind {
    ProfileKey key = {};
    // Of all replicas.
    int64_t samples = 0;
    // Whether its time says something about `key`.
    bool typical = true;
  };
  struct StepTime {
    double seconds = 0;
    int64_t samples = 0;
    // The first step of a process is slow, and says nothing.
    bool first = false;
    // Whether it went into the profile.
    bool profiled = false;
    // Of `seconds`, what went into exchanging gradients, and into waiting for samples.
    double sync = 0;
    double data = 0;
  };
  // The last micro-batch of a step is complete.
  void FinishStep(const Kind& kind);
  // The steps whose times are known since the last call, in their order. They are in the profile.
  std::vector<StepTime> TakeTimes();

  // Forgets the micro-batches of the step in progress.
  void DropTimes() {
    micro_batches_.clear();
    read_.reset();
  }
  // The next micro-batch's time begins now; or when it does.
  void Resume() { begin_ = clock_.Now(); }
  void Pause() { begin_.reset(); }

 private:
  struct Span {
    StepClock::Mark begin;
    StepClock::Mark end;
    // When its samples had been read. Nothing: nobody said.
    std::optional<StepClock::Mark> read = std::nullopt;
  };
  struct Step {
    Kind kind = {};
    bool first = false;
    double sync_time = 0;
    std::vector<Span> micro_batches = {};
  };

  // Nothing: not known yet.
  std::optional<StepTime> TimeOf(const Step& step);

  StepClock clock_;
  StepProfile profile_;
  // When the micro-batch in progress began. Nothing: none did.
  std::optional<StepClock::Mark> begin_;
  std::optional<StepClock::Mark> read_;
  // Of the step in progress, those that are complete.
  std::vector<Span> micro_batches_;
  double sync_time_ = 0;
  // Whose times are not known yet, in their order.
  std::deque<Step> finished_;
  // Steps of this process.
  int64_t steps_ = 0;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_STEP_METER_H_
