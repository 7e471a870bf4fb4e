// One WatchJobs call: the jobs as they are, then every change of them. A job that changes several times
// before the reader is ready is sent once, as it is then. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_JOBS_WATCH_STREAM_H_
#define ADAPTDL_SERVICES_SUPERVISOR_JOBS_WATCH_STREAM_H_

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "adaptdl/v1/job_service.pb.h"
#include "services/supervisor/calls/lanes.h"
#include "services/supervisor/calls/pull_reactor.h"
#include "services/supervisor/jobs/job_manager.h"
#include "services/supervisor/state/change_hub.h"

namespace adaptdl::supervisor {

class WatchStream final : public PullReactor<v1::WatchJobsResponse>, public ChangeListener {
 public:
  WatchStream(const JobManager* jobs, const Lanes* lanes, const std::string& caller,
              const v1::WatchJobsRequest& request)
      : PullReactor(lanes->readers, lanes->durability, caller), jobs_(jobs), request_(request) {}

  // Subscribe it before Begin(): it lists the jobs that there are then.
  void OnChanges(const Changes& changes) override;

 protected:
  Pull Next(v1::WatchJobsResponse* message, grpc::Status* end) override;

 private:
  // Notes the jobs that there are now.
  absl::Status List();
  bool Wanted(const v1::Job& job) const;
  bool WantsNamespace(const std::string& name_space) const;
  bool BeginBatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t Describe(const std::vector<std::string>& uids, v1::WatchJobsResponse* message);

  const JobManager* const jobs_;
  const v1::WatchJobsRequest request_;
  bool listed_ = false;  // Used in Next() only.
  Mutex mutex_;
  // When one job is watched.
  std::string only_uid_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> initial_ ABSL_GUARDED_BY(mutex_);
  bool initial_done_sent_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::string> changed_ ABSL_GUARDED_BY(mutex_);
  // Changes that are being sent, and when the next ones may be.
  std::deque<std::string> batch_ ABSL_GUARDED_BY(mutex_);
  absl::Time next_batch_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::map<std::string, v1::Job> deleted_ ABSL_GUARDED_BY(mutex_);
  bool only_one_deleted_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_JOBS_WATCH_STREAM_H_
