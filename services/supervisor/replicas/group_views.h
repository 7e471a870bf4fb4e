// A job's current group as all its members are told of it at their rendezvous: what differs between them is
// left out. Made once for each change of the job, since a thousand may ask. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_GROUP_VIEWS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_GROUP_VIEWS_H_

#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "adaptdl/v1/replica_service.pb.h"
#include "libs/base/mutex.h"
#include "services/supervisor/state/job_entry.h"
#include "services/supervisor/state/tables.h"

namespace adaptdl::supervisor {

struct GroupView {
  std::shared_ptr<const JobEntry> job;
  v1::JoinGroupResponse members;
  // The same without GroupFormed.members.
  v1::JoinGroupResponse brief;
  // Indices in JobEntry::replicas.
  std::unordered_map<std::string, int> places;
};

class GroupViews {
 public:
  // `job` is what `tables` hold now.
  std::shared_ptr<const GroupView> ViewOf(const Tables& tables, const std::shared_ptr<const JobEntry>& job);

 private:
  Mutex mutex_;
  // By job, of those whose members ask.
  std::map<std::string, std::shared_ptr<const GroupView>> views_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_REPLICAS_GROUP_VIEWS_H_
