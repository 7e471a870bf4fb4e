#include "libs/elastic/job/step_meter.h"

#include <cstddef>
#include <numeric>

namespace adaptdl::elastic {

void StepMeter::BeginMicroBatch() {
  sync_time_ = 0;
  if (begin_ == 0) begin_ = seconds_();
}

void StepMeter::FinishMicroBatch() {
  const double now = seconds_();
  times_.push_back(now - begin_);
  begin_ = now;
}

StepMeter::StepTime StepMeter::FinishStep(const ProfileKey& key, bool typical) {
  FinishMicroBatch();
  StepTime time;
  time.seconds = std::accumulate(times_.begin(), times_.end(), 0.0);
  time.first = steps_++ == 0;
  time.profiled = !time.first && typical && time.seconds > 0;
  if (!time.profiled) return time;
  for (size_t i = 0; i + 1 < times_.size(); ++i) profile_.AddAccumulationStep(key, times_[i]);
  profile_.AddOptimizerStep(key, times_.back(), sync_time_);
  return time;
}

}  // namespace adaptdl::elastic
