// Times that something took, of many threads, and their percentiles. Thread-safe.

#ifndef ADAPTDL_BENCH_LOAD_LATENCIES_H_
#define ADAPTDL_BENCH_LOAD_LATENCIES_H_

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "libs/base/mutex.h"

namespace adaptdl::load {

class Latencies {
 public:
  void Add(absl::Duration latency) {
    MutexLock lock(&mutex_);
    milliseconds_.push_back(absl::ToDoubleMilliseconds(latency));
  }

  // What was added since the last call, ascending, in milliseconds.
  std::vector<double> Take() {
    MutexLock lock(&mutex_);
    std::sort(milliseconds_.begin(), milliseconds_.end());
    return std::exchange(milliseconds_, {});
  }

 private:
  Mutex mutex_;
  std::vector<double> milliseconds_ ABSL_GUARDED_BY(mutex_);
};

// The value that a part of the ascending `values` does not exceed; 0 if there are none.
inline double Percentile(const std::vector<double>& values, double part) {
  if (values.empty()) return 0;
  return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1))];
}

}  // namespace adaptdl::load

#endif  // ADAPTDL_BENCH_LOAD_LATENCIES_H_
