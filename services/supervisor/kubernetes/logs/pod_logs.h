// Readers of pods' output (pod_log.h), for streams: what a worker's LogService is elsewhere. Of a pod that can't be read,
// or not to its end, what was kept goes on (kept_logs.h).
//
// A log is read one message ahead and no more, by a thread of its own: whoever reads slowly slows the kubelet down
// instead of filling memory.
//
// Thread-safe. PodLogs borrows the client and owns the threads, which its destructor ends; readers may outlive it.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_POD_LOGS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_POD_LOGS_H_

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adaptdl/v1/log_service.pb.h"
#include "grpcpp/support/status.h"
#include "libs/base/mutex.h"
#include "libs/kube/client/client.h"
#include "services/supervisor/kubernetes/logs/kept_logs.h"
#include "services/supervisor/kubernetes/logs/pod_log.h"
#include "services/supervisor/logs/log_readers.h"

namespace adaptdl::supervisor {

// Opens what was kept of the replica, if its pod can't be read. Null: nothing is kept.
using KeptLogSource = std::function<absl::StatusOr<KeptLogFile>()>;

class PodLogReader final : public LogReader {
 public:
  State state() const override;
  // NOT_FOUND: the pod is gone, and its output with it.
  grpc::Status status() const override;
  v1::StreamReplicaLogsResponse Take() override;
  // The call ends soon.
  void Abandon() override;

 private:
  friend class PodLogs;
  explicit PodLogReader(std::function<void()> notify) : notify_(std::move(notify)) {}

  // Hands the lines over, when those before were taken. CANCELLED: nobody wants them.
  absl::Status Offer(v1::StreamReplicaLogsResponse lines);
  void Finish(const absl::Status& status);
  void Notify();
  const std::stop_source& stop_source() const { return stop_; }

  std::stop_source stop_;
  mutable Mutex mutex_;
  CondVar changed_;
  // Called when the state has changed, with no lock held, until Abandon().
  std::function<void()> notify_ ABSL_GUARDED_BY(mutex_);
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  v1::StreamReplicaLogsResponse incoming_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

struct PodLogsOptions {
  // Logs that are read at a time, by a thread each.
  size_t max_readers = 500;
  PodLogPauses pauses = {};
};

class PodLogs {
 public:
  explicit PodLogs(const kube::Client* client, PodLogsOptions options = {})
      : client_(*client), options_(options) {}
  ~PodLogs();

  // `notify`: as StreamReader has it. Too many at a time: the reader is done, with RESOURCE_EXHAUSTED.
  std::shared_ptr<PodLogReader> Start(const PodLogRequest& request, std::function<void()> notify,
                                      const KeptLogSource& kept = nullptr);

 private:
  struct Worker {
    std::shared_ptr<PodLogReader> reader;
    std::thread thread;
  };

  // Joins threads that have come to their end.
  void Reap() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run(const PodLogRequest& request, const KeptLogSource& kept, PodLogReader* reader) const;
  // Reads the log, and what was kept of what can't be read any more.
  absl::Status ReadAll(const PodLogRequest& request, const KeptLogSource& kept, const std::stop_token& stop,
                       absl::Time* last, const PodLogSink& sink) const;
  // The same as Run() of the last lines with a pattern, which the kubelet knows nothing of: looks through what there is now, and
  // then goes on.
  void RunLastMatching(const PodLogRequest& request, const KeptLogSource& kept, PodLogReader* reader) const;

  const kube::Client& client_;
  const PodLogsOptions options_;
  Mutex mutex_;
  std::list<Worker> workers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_POD_LOGS_H_
