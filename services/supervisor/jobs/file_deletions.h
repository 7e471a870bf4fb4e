// The files of deleted jobs: every node may hold some. Nodes that are away are told when they come back, and
// all again until they say that nothing is left. Thread-safe; transactions are used by one thread.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_JOBS_FILE_DELETIONS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_JOBS_FILE_DELETIONS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "adaptdl/v1/job.pb.h"
#include "services/supervisor/jobs/replica_launcher.h"
#include "services/supervisor/state/core.h"
#include "services/supervisor/state/transaction.h"

namespace adaptdl::supervisor {

class FileDeletions {
 public:
  // Both outlive it.
  FileDeletions(Core* core, const ReplicaLauncher* launcher) : core_(core), launcher_(launcher) {}

  // The job is being deleted.
  void Delete(Transaction* transaction, const v1::Job& job) const;
  // Tells the node which files are to go.
  void Tell(Transaction* transaction, const std::string& node_id) const;
  // Nothing of the deleted job is left on the node.
  absl::Status Finish(const std::string& node_id, const std::string& job_uid);
  // Tells nodes again. Called by one thread.
  void Step();

 private:
  Core* const core_;
  const ReplicaLauncher* const launcher_;
  absl::Time next_ = absl::InfinitePast();  // Used in Step() only.
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_JOBS_FILE_DELETIONS_H_
