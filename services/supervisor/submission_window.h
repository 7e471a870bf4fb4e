// When jobs were submitted within the last minute, by namespace. Not thread-safe: ClusterState guards it.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_SUBMISSION_WINDOW_H_
#define ADAPTDL_SERVICES_SUPERVISOR_SUBMISSION_WINDOW_H_

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
  absl::Duration Wait(const std::string& name_space, int most, absl::Time now) {
    const auto it = times_.find(name_space);
    if (most <= 0 || it == times_.end()) return absl::ZeroDuration();
    std::deque<absl::Time>& times = it->second;
    Forget(now, &times);
    if (times.size() < static_cast<size_t>(most)) return absl::ZeroDuration();
    // It takes the place of the one that comes `most` before it.
    return std::max(absl::Milliseconds(1), times[times.size() - most] + kWindow - now);
  }

  void Note(const std::string& name_space, absl::Time now) {
    std::deque<absl::Time>& times = times_[name_space];
    Forget(now, &times);
    times.push_back(now);
  }

  // Notes one of before a restart. In order of time.
  void Restore(const std::string& name_space, absl::Time time, absl::Time now) {
    if (time + kWindow > now) times_[name_space].push_back(std::min(time, now));
  }

  // Forgets namespaces in which nothing was submitted.
  void Sweep(absl::Time now) {
    for (auto it = times_.begin(); it != times_.end();) {
      Forget(now, &it->second);
      it = it->second.empty() ? times_.erase(it) : std::next(it);
    }
  }

 private:
  static constexpr absl::Duration kWindow = absl::Minutes(1);

  static void Forget(absl::Time now, std::deque<absl::Time>* times) {
    while (!times->empty() && times->front() + kWindow <= now) times->pop_front();
  }

  std::map<std::string, std::deque<absl::Time>> times_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_SUBMISSION_WINDOW_H_
