// Follows the AdaptDLJob objects of a cluster: those that others make become jobs, changes of their specification become
// changes of the jobs, and with an object its job ends. What we write comes back and changes nothing.
//
// Owns a reflector. Thread-safe, but for Step(), which one thread calls.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_JOBS_JOB_WATCH_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_JOBS_JOB_WATCH_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "libs/base/mutex.h"
#include "libs/kube/client/client.h"
#include "libs/kube/control/cache.h"
#include "libs/kube/control/reflector.h"
#include "libs/kube/json/json.h"
#include "services/supervisor/jobs/job_manager.h"
#include "services/supervisor/state/core.h"

namespace adaptdl::supervisor {

struct JobWatchOptions {
  // Empty: objects of all namespaces.
  std::string name_space = {};
  // Of containers (kubejobs::JobFromObject()).
  kube::Json default_resources = {};
  std::function<void(const absl::Status&)> report = nullptr;
};

class JobWatch {
 public:
  // Begins. `seen` is told of each object before anything follows from it. All outlive it.
  JobWatch(const kube::Client* client, Core* core, JobManager* jobs,
           std::function<void(const kube::Json&)> seen, JobWatchOptions options);

  // Waits until all objects that there are have been told. False: a stop was requested first.
  bool AwaitSynced(const std::stop_token& stop);
  // Does what follows from what was seen.
  void Step();

 private:
  struct Object {
    kube::Json json;
    std::string uid;
  };

  void Mark(const std::string& uid, const kube::ObjectKey& key);
  // Whether it is done with.
  bool Follow(const std::string& uid, const kube::ObjectKey& key);
  absl::Status Take(const Object& object);
  absl::Status TakeChange(const std::string& uid, const v1::Job& job);
  bool Abandon(const std::string& uid);
  // Jobs that are known and have no object any more: they went while nobody looked.
  void MarkOrphans();

  const JobWatchOptions options_;
  Core& core_;
  JobManager& jobs_;
  const std::function<void(const kube::Json&)> seen_;
  bool looked_for_orphans_ = false;  // Used in Step() only.
  // Jobs of which something has changed, by uid.
  Mutex mutex_;
  std::map<std::string, kube::ObjectKey> marked_ ABSL_GUARDED_BY(mutex_);
  kube::Cache<Object> objects_;
  // Begins when all that it uses is there, and ends before.
  std::unique_ptr<kube::Reflector> reflector_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_JOBS_JOB_WATCH_H_
