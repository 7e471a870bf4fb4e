// The output of replicas, from the LogService of their workers. Thread-safe; the channels outlive it.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_LOGS_WORKER_LOG_READERS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_LOGS_WORKER_LOG_READERS_H_

#include <functional>
#include <memory>

#include "services/supervisor/logs/log_readers.h"
#include "services/supervisor/logs/worker_channels.h"

namespace adaptdl::supervisor {

class WorkerLogReaders final : public LogReaders {
 public:
  explicit WorkerLogReaders(WorkerChannels* workers) : workers_(*workers) {}

  absl::StatusOr<std::shared_ptr<LogReader>> Open(const LogLocation& location, const LogWish& wish,
                                                  std::function<void()> notify) override;

 private:
  WorkerChannels& workers_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_LOGS_WORKER_LOG_READERS_H_
