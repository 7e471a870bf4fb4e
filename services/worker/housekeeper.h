// The worker's slow work, on a thread of its own: deletions, the bounds of logs, of
// virtual environments and of the folders that come with jobs, metrics, a look at the GPUs.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_HOUSEKEEPER_H_
#define ADAPTDL_SERVICES_WORKER_HOUSEKEEPER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "adaptdl/v1/node_service.pb.h"
#include "libs/base/mutex.h"
#include "services/worker/replica_manager.h"
#include "services/worker/worker_metrics.h"

namespace adaptdl::worker {

class Housekeeper {
 public:
  struct Options {
    // Logs that are kept of replicas that ended: so many, and so many bytes of all logs together and of
    // those of one job.
    int max_ended_replicas = 1000;
    int64_t max_log_bytes = int64_t{10} << 30;
    int64_t max_job_log_bytes = int64_t{1} << 30;
    absl::Duration metrics_period = absl::Seconds(1);
    absl::Duration prune_period = absl::Minutes(1);
  };

  // All must outlive it. `deleted` hears of each job (uid) of which nothing is left here; `watch` is called
  // every metrics_period, unless there is slower work.
  Housekeeper(Options options, ReplicaManager* replicas, WorkerMetrics* metrics,
              std::function<bool()> connected, std::function<void(const std::string& job_uid)> deleted,
              std::function<void()> watch);
  // Finishes the deletion in progress, and no more.
  ~Housekeeper();

  // Soon. The supervisor asks again for what could not be done, or was not when the worker ended.
  void DeleteJob(const v1::DeleteJobFiles& job);

 private:
  void Run();

  const Options options_;
  ReplicaManager* const replicas_;
  WorkerMetrics* const metrics_;
  const std::function<bool()> connected_;
  const std::function<void(const std::string& job_uid)> deleted_;
  const std::function<void()> watch_;

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<v1::DeleteJobFiles> deletions_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_HOUSEKEEPER_H_
