// How fast a job goes, from the parts of itself that it says are done. Not thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STATE_PROGRESS_RATE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STATE_PROGRESS_RATE_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"

namespace adaptdl::supervisor {

class ProgressRate {
 public:
  // `fraction`, in [0, 1], is done at `now`, by the replicas of `group`. How long the rest will take; none:
  // nobody knows yet, or it is more than a century.
  //
  // A new group has a pace of its own. What little is known of it at first weighs little against the pace of
  // the group before.
  std::optional<absl::Duration> Observe(int64_t group, double fraction, absl::Time now);

 private:
  int64_t group_ = 0;
  absl::Time since_ = absl::InfinitePast();  // of the group's first report
  double first_ = 0;                         // what was done then
  double rate_ = 0;                          // per second; 0: not known
  double rate_before_ = 0;                   // of the group before
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STATE_PROGRESS_RATE_H_
