// WorkLanes of tests.

#ifndef ADAPTDL_TESTS_SERVICES_WORKER_LANES_H_
#define ADAPTDL_TESTS_SERVICES_WORKER_LANES_H_

#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "services/worker/work_lanes.h"

namespace adaptdl::worker {

// Work is done at once, by whoever posts it; or, while the disk hangs, when the test lets it go on. Not
// thread-safe.
class ManualLanes final : public WorkLanes {
 public:
  void Post(const std::string&, std::function<void()> work) override {
    waiting_.push_back(std::move(work));
    if (!hangs_) GoOn();
  }
  void Hang() { hangs_ = true; }
  void GoOn() {
    hangs_ = false;
    while (!waiting_.empty()) {
      const std::function<void()> work = std::move(waiting_.front());
      waiting_.pop_front();
      work();
    }
  }

 private:
  bool hangs_ = false;
  std::deque<std::function<void()>> waiting_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_TESTS_SERVICES_WORKER_LANES_H_
