#include "libs/elastic/job/step_meter.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace adaptdl::elastic {

void StepMeter::UseDevice(device::Device* device, std::function<device::Stream()> stream) {
  finished_.clear();
  micro_batches_.clear();
  begin_.reset();
  read_.reset();
  clock_.UseDevice(device, std::move(stream));
}

void StepMeter::BeginMicroBatch() {
  sync_time_ = 0;
  if (!begin_) begin_ = clock_.Now();
}

void StepMeter::FinishMicroBatch() {
  const StepClock::Mark now = clock_.Now();
  // The device came into play within it.
  micro_batches_.push_back({begin_.value_or(now), now, read_});
  begin_ = now;
  read_.reset();
}

void StepMeter::MarkRead() {
  if (begin_) read_ = clock_.Now();
}

void StepMeter::FinishStep(const Kind& kind) {
  FinishMicroBatch();
  finished_.push_back({kind, steps_++ == 0, sync_time_, std::move(micro_batches_)});
  micro_batches_.clear();
}

std::optional<StepMeter::StepTime> StepMeter::TimeOf(const Step& step) {
  std::vector<double> times;
  StepTime time;
  for (const Span& span : step.micro_batches) {
    const std::optional<double> seconds = clock_.Between(span.begin, span.end);
    if (!seconds) return std::nullopt;
    times.push_back(*seconds);
    // Known too, as it is before the end.
    if (span.read) time.data += clock_.Between(span.begin, *span.read).value_or(0);
  }
  time.seconds = std::accumulate(times.begin(), times.end(), 0.0);
  time.samples = step.kind.samples;
  // Two clocks, on a device.
  time.data = std::clamp(time.data, 0.0, time.seconds);
  time.sync = std::clamp(step.sync_time, 0.0, time.seconds - time.data);
  time.first = step.first;
  time.profiled = !step.first && step.kind.typical && time.seconds > 0;
  if (!time.profiled) return time;
  for (size_t i = 0; i + 1 < times.size(); ++i) profile_.AddAccumulationStep(step.kind.key, times[i]);
  profile_.AddOptimizerStep(step.kind.key, times.back(), step.sync_time);
  return time;
}

std::vector<StepMeter::StepTime> StepMeter::TakeTimes() {
  std::vector<StepTime> times;
  while (!finished_.empty()) {
    const std::optional<StepTime> time = TimeOf(finished_.front());
    if (!time) break;
    times.push_back(*time);
    finished_.pop_front();
  }
  return times;
}

}  // namespace adaptdl::elastic
