// Where output and files of jobs are to be found. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_LOGS_LOG_LOCATIONS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_LOGS_LOG_LOCATIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "adaptdl/v1/job.pb.h"
#include "services/supervisor/state/read_index.h"
#include "services/supervisor/store/job_store.h"

namespace adaptdl::supervisor {

// Where output of a replica is to be found.
struct LogLocation {
  // Of its job.
  std::string name_space;
  std::string job_uid;
  v1::Replica replica;
  // Group that it was launched for; replica.group() is the last one that it belonged to.
  int64_t first_group = 0;
  // Empty: its node is gone.
  std::string worker_address;
};

class LogLocations {
 public:
  // Both outlive it.
  LogLocations(const ReadIndex* index, JobStore* store) : index_(index), store_(store) {}

  // Of all groups, in order of group and rank.
  absl::StatusOr<std::vector<LogLocation>> FindLogs(const std::string& uid) const;
  // Workers that may serve the job's files, the likeliest first.
  std::vector<std::string> FindFileServers(const std::string& uid) const;
  // The job as it is. Null: it was deleted.
  std::shared_ptr<const JobEntry> FindJob(const std::string& uid) const { return index_->FindJob(uid); }

 private:
  const ReadIndex* const index_;
  JobStore* const store_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_LOGS_LOG_LOCATIONS_H_
