// What is over goes: jobs whose time is over, and what was kept of events, requests and replicas. Used by the
// thread that steps through time alone.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_JOBS_RETENTION_H_
#define ADAPTDL_SERVICES_SUPERVISOR_JOBS_RETENTION_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "services/supervisor/jobs/file_deletions.h"
#include "services/supervisor/state/core.h"

namespace adaptdl::supervisor {

struct RetentionOptions {
  // How long finished jobs are kept, and events of the others.
  absl::Duration jobs = absl::Hours(24) * 30;
  // Whether their logs and folders are deleted with them then.
  bool expire_files = false;
  // How long the answers of calls are kept for their repetition.
  absl::Duration requests = absl::Hours(24);
  // Replicas of a job that have ended are remembered, so that their logs are found: at least the newest so
  // many. A worker keeps the logs of as many.
  int replicas = 1000;
};

class Retention {
 public:
  // Both outlive it.
  Retention(Core* core, const RetentionOptions& options, const FileDeletions* deletions)
      : core_(core), options_(options), deletions_(deletions) {}

  void Step();

 private:
  void ExpireJobs(const Moment& now);
  void PruneRecords(const Moment& now);
  // Jobs (uids and groups) whose replicas are worth a look, some at a time. `more`: there are others.
  std::vector<std::pair<std::string, int64_t>> FindGrown(bool* more);
  // False: there is more to do.
  bool PruneReplicas();

  Core* const core_;
  const RetentionOptions options_;
  const FileDeletions* const deletions_;
  // The group that each job had when its replicas were pruned.
  std::map<std::string, int64_t> pruned_groups_;
  absl::Time next_prune_ = absl::InfinitePast();
  absl::Time next_expiry_ = absl::InfinitePast();
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_JOBS_RETENTION_H_
