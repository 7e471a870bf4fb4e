#include "services/allocator/rescale_costs.h"

#include <algorithm>
#include <string>
#include <vector>

namespace adaptdl::allocator {
namespace {

constexpr size_t kMostJobs = 1000;
constexpr double kInPlaceSeconds = 1;
constexpr double kRestartSeconds = 10;

}  // namespace

void RescaleCosts::Learn(const std::string& uid, const Measured& measured) {
  const auto [job, is_new] = jobs_.try_emplace(uid);
  job->second.measured = measured;
  if (!is_new) return;
  job->second.place = ++last_place_;
  order_.emplace(last_place_, uid);
  if (jobs_.size() <= kMostJobs) return;
  jobs_.erase(order_.begin()->second);
  order_.erase(order_.begin());
}

double RescaleCosts::Expect(bool in_place) const {
  std::vector<double> seconds;
  for (const auto& [uid, entry] : jobs_) {
    if (entry.measured.in_place == in_place) seconds.push_back(entry.measured.seconds);
  }
  if (seconds.empty()) return in_place ? kInPlaceSeconds : kRestartSeconds;
  // Of an even number the upper one: the same whatever the order.
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace adaptdl::allocator
