#include "bench/replay/first_come.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace adaptdl::replay {

void FirstCome::End(const std::string& job) {
  const auto found = running_.find(job);
  if (found == running_.end()) return;
  for (const int node : found->second) ++free_[node];
  running_.erase(found);
}

std::vector<FirstCome::Start> FirstCome::TakeStarts() {
  std::vector<Start> starts;
  while (!waiting_.empty() && waiting_.front().replicas <= std::accumulate(free_.begin(), free_.end(), 0)) {
    Start start{waiting_.front().job, {}};
    int left = waiting_.front().replicas;
    while (left > 0) {
      const auto freest = std::max_element(free_.begin(), free_.end());
      const int taken = std::min(left, *freest);
      start.nodes.insert(start.nodes.end(), taken, static_cast<int>(freest - free_.begin()));
      *freest -= taken;
      left -= taken;
    }
    waiting_.pop_front();
    running_[start.job] = start.nodes;
    starts.push_back(std::move(start));
  }
  return starts;
}

}  // namespace adaptdl::replay
