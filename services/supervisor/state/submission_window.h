// When jobs were submitted within the last minute, by namespace. A plain value; thread-safe as such.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STATE_SUBMISSION_WINDOW_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STATE_SUBMISSION_WINDOW_H_

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <string>

#include "absl/time/time.h"

namespace adaptdl::supervisor {

class SubmissionWindow {
 public:
  // How long a submission must wait so that there are never more than `most` in any minute. Zero: not at all,
  // also if `most` is 0, which is no bound.
  absl::Duration Wait(const std::string& name_space, int most, absl::Time now) const {
    const auto it = times_.find(name_space);
    if (most <= 0 || it == times_.end()) return absl::ZeroDuration();
    const std::deque<absl::Time>& times = it->second;
    const auto recent = std::upper_bound(times.begin(), times.end(), now - kWindow);
    if (times.end() - recent < most) return absl::ZeroDuration();
    // It takes the place of the one that comes `most` before it.
    return std::max(absl::Milliseconds(1), times[times.size() - most] + kWindow - now);
  }

  void Note(const std::string& name_space, absl::Time now) {
    Sweep(now);
    std::deque<absl::Time>& times = times_[name_space];
    Forget(now, &times);
    times.push_back(now);
  }

  // Notes one of before a restart. In order of time.
  void Restore(const std::string& name_space, absl::Time time, absl::Time now) {
    if (time + kWindow > now) times_[name_space].push_back(std::min(time, now));
  }

  // Namespaces that are remembered.
  size_t size() const { return times_.size(); }

 private:
  static constexpr absl::Duration kWindow = absl::Minutes(1);

  // Forgets namespaces in which nothing was submitted, once per window.
  void Sweep(absl::Time now) {
    if (now < next_sweep_) return;
    next_sweep_ = now + kWindow;
    for (auto it = times_.begin(); it != times_.end();) {
      Forget(now, &it->second);
      it = it->second.empty() ? times_.erase(it) : std::next(it);
    }
  }

  static void Forget(absl::Time now, std::deque<absl::Time>* times) {
    while (!times->empty() && times->front() + kWindow <= now) times->pop_front();
  }

  std::map<std::string, std::deque<absl::Time>> times_;
  absl::Time next_sweep_ = absl::InfinitePast();
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STATE_SUBMISSION_WINDOW_H_
