// The output of replicas that are pods, for LogStream: from the pod, and where that is gone or can't be read, from what
// was kept of it. Thread-safe; borrows its parts, and owns the threads that read.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_POD_LOG_READERS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_POD_LOG_READERS_H_

#include <functional>
#include <memory>

#include "services/supervisor/kubernetes/logs/kept_logs.h"
#include "services/supervisor/kubernetes/logs/pod_logs.h"
#include "services/supervisor/kubernetes/pods/pod_watch.h"
#include "services/supervisor/logs/log_readers.h"

namespace adaptdl::supervisor {

class PodLogReaders final : public LogReaders {
 public:
  // `kept`: null: nothing is kept.
  PodLogReaders(const kube::Client* client, const PodWatch* watch, const KeptLogs* kept)
      : watch_(*watch), kept_(kept), logs_(client) {}

  absl::StatusOr<std::shared_ptr<LogReader>> Open(const LogLocation& location, const LogWish& wish,
                                                  std::function<void()> notify) override;

 private:
  absl::StatusOr<KeptLogFile> OpenKept(const LogLocation& location) const;

  const PodWatch& watch_;
  const KeptLogs* const kept_;
  PodLogs logs_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_POD_LOG_READERS_H_
