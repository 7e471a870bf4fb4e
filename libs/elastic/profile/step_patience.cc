#include "libs/elastic/profile/step_patience.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace adaptdl::elastic {
namespace {

constexpr size_t kSteps = 63;
constexpr size_t kFewest = 5;
constexpr double kMedians = 10;

}  // namespace

void StepPatience::Add(double seconds) {
  if (steps_.size() < kSteps) {
    steps_.push_back(seconds);
  } else {
    steps_[static_cast<size_t>(count_) % kSteps] = seconds;
  }
  ++count_;
  if (steps_.size() < kFewest) return;
  std::vector<double> sorted = steps_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  seconds_ = std::max(least_, kMedians * *middle);
}

}  // namespace adaptdl::elastic
