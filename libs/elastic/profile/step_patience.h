// How long replicas wait for each other before something must be wrong: ten times the median of the last
// steps, and at least a given time. Thread-safety: one thread at a time.

#ifndef ADAPTDL_LIBS_ELASTIC_PROFILE_STEP_PATIENCE_H_
#define ADAPTDL_LIBS_ELASTIC_PROFILE_STEP_PATIENCE_H_

#include <cstdint>
#include <vector>

namespace adaptdl::elastic {

class StepPatience {
 public:
  // `least`: seconds.
  explicit StepPatience(double least) : least_(least) {}

  // An optimiser step took so many seconds, reading its samples included.
  void Add(double seconds);

  // In seconds. 0: too few steps were seen.
  double seconds() const { return seconds_; }

 private:
  const double least_;
  // The last ones; the oldest is overwritten.
  std::vector<double> steps_;
  int64_t count_ = 0;
  double seconds_ = 0;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_PROFILE_STEP_PATIENCE_H_
