// The output of replicas, as their kubelets have it: what a worker's LogService is elsewhere. It can be had while
// the pod is there: also when it has ended, for those that are kept, and not when it is deleted.
//
// A log is read one message ahead and no more, by a thread of its own: whoever reads slowly slows the kubelet down
// instead of filling memory. One that is followed is gone on with where the connection was cut. The cluster does
// not say which lines went to which of stdout and stderr.
//
// The interface of a reader is RemoteReader's (services/supervisor/logs/remote_reader.h).
//
// Thread-safe. PodLogs borrows the client and owns the threads, which its destructor ends; readers may outlive it.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_LOGS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_LOGS_H_

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
#include "absl/time/time.h"
#include "adaptdl/v1/log_service.pb.h"
#include "grpcpp/support/status.h"
#include "libs/base/mutex.h"
#include "libs/kube/client/client.h"
#include "libs/kube/json/object.h"

namespace adaptdl::supervisor {

struct PodLogRequest {
  kube::ObjectKey pod;
  std::string container;
  // Goes on until the container has ended.
  bool follow = false;
  // Only the last so many lines. 0: all.
  int tail_lines = 0;
};

class PodLogReader {
 public:
  enum class State { kWaiting, kReady, kDone };

  State state() const;
  // In State::kDone. NOT_FOUND: the pod is gone, and its output with it.
  grpc::Status status() const;
  // In State::kReady.
  v1::StreamReplicaLogsResponse Take();
  // Nobody will ask any more: the call ends soon.
  void Abandon();

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
  // Between calls for a log that is followed.
  absl::Duration first_pause = absl::Milliseconds(200);
  absl::Duration longest_pause = absl::Seconds(10);
};

class PodLogs {
 public:
  explicit PodLogs(const kube::Client* client, PodLogsOptions options = {})
      : client_(*client), options_(options) {}
  ~PodLogs();

  // `notify` is called when the reader's state has changed, with no lock held, until Abandon(). Too many at a
  // time: the reader is done, with RESOURCE_EXHAUSTED.
  std::shared_ptr<PodLogReader> Start(const PodLogRequest& request, std::function<void()> notify);

 private:
  struct Worker {
    std::shared_ptr<PodLogReader> reader;
    std::thread thread;
  };

  // Joins threads that have come to their end.
  void Reap() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run(const PodLogRequest& request, PodLogReader* reader) const;
  // One call, from after `last` on, which it leaves at the last line. OK: the server has ended the log.
  absl::Status Read(const PodLogRequest& request, absl::Time* last, PodLogReader* reader) const;
  // Whether the container runs no more. An error: the pod can't be looked at.
  absl::StatusOr<bool> HasEnded(const PodLogRequest& request, const std::stop_token& stop) const;

  const kube::Client& client_;
  const PodLogsOptions options_;
  Mutex mutex_;
  std::list<Worker> workers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_PODS_POD_LOGS_H_
