#include "libs/elastic/job/training_watch.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

namespace adaptdl::elastic {

TrainingWatch::TrainingWatch(Options options)
    : options_(std::move(options)), step_patience_(options_.least_patience) {
  if (options_.thread_clock) ran_at_ = options_.seconds();
}

void TrainingWatch::NoteTrainingThread() {
  if (std::this_thread::get_id() != made_by_) trains_elsewhere_ = true;
}

void TrainingWatch::AddStep(double seconds) {
  step_patience_.Add(seconds);
  patience_ = step_patience_.seconds();
}

void TrainingWatch::Tick() {
  if (!options_.thread_clock) return;
  const double time = options_.thread_clock();
  if (time == thread_time_ && waiting_since_ < 0 && !stores_) return;
  thread_time_ = time;
  ran_at_ = options_.seconds();
}

Activity TrainingWatch::CurrentActivity(const std::function<std::optional<Standing>()>& standing) const {
  const double now = options_.seconds();
  const double waiting_since = waiting_since_;
  Activity activity;
  activity.patience = patience_;
  if (waiting_since >= 0) {
    activity.waiting = std::max(now - waiting_since, 0.0);
    activity.standing = standing();
  } else if (options_.thread_clock && !trains_elsewhere_ && !stores_) {
    activity.idle = std::max(now - ran_at_, 0.0);
  }
  return activity;
}

}  // namespace adaptdl::elastic
