// Whether a node does harm: replicas of several jobs fail on it, one job after another, and none succeeds.
//
//   trusted ──(`jobs` different jobs failed here within `window`)──▶ quarantined ──(its time is over)──▶
//   trusted
//
// Each further quarantine lasts twice as long, until a replica has succeeded. The failures of a single job,
// however many, mean nothing; nor do those of a job that fails on other nodes as well, which the caller
// leaves out.
//
// Plain values; thread-safety as of any struct. Times are the caller's.

#ifndef ADAPTDL_LIBS_JOBS_NODE_HEALTH_H_
#define ADAPTDL_LIBS_JOBS_NODE_HEALTH_H_

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/jobs/job.h"

namespace adaptdl::jobs {

struct QuarantinePolicy {
  // Different jobs whose replicas must have failed. 0: nodes are never quarantined.
  int jobs = 3;
  absl::Duration window = absl::Minutes(10);
  // How long the first quarantine lasts, and the longest.
  absl::Duration first = absl::Minutes(5);
  absl::Duration longest = absl::Hours(2);
};

// What the end of a replica says of its node.
enum class Sign {
  // Nothing: it was stopped early, or followed the end of another replica.
  kNone,
  // It did what it was to do.
  kGood,
  kBad,
};
Sign SignOf(const Replica& replica);

class NodeHealth {
 public:
  void Succeeded() {
    failed_.clear();
    quarantines_ = 0;
  }
  void Failed(const std::string& job_uid, absl::Time now) { failed_[job_uid] = now; }

  // Jobs that have failed here within the window.
  std::vector<std::string> FailedJobs(absl::Time now, const QuarantinePolicy& policy);
  bool HasFailed(const std::string& job_uid, absl::Time now, const QuarantinePolicy& policy) const;
  // Begins a quarantine: how long it lasts. What has failed until now does not count again.
  absl::Duration Quarantine(const QuarantinePolicy& policy);

 private:
  // When a replica of each job failed last.
  std::map<std::string, absl::Time> failed_;
  int quarantines_ = 0;
};

}  // namespace adaptdl::jobs

#endif  // ADAPTDL_LIBS_JOBS_NODE_HEALTH_H_
