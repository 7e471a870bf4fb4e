// How the output of replicas is read, whatever runs them: from their workers (worker_log_readers.h), or from pods
// (services/supervisor/kubernetes/logs).
//
// Thread-safety: implementations are thread-safe. No call waits.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_LOGS_LOG_READERS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_LOGS_LOG_READERS_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "adaptdl/v1/log_service.pb.h"
#include "services/supervisor/logs/log_locations.h"
#include "services/supervisor/logs/stream_reader.h"

namespace adaptdl::supervisor {

using LogReader = StreamReader<v1::StreamReplicaLogsResponse>;

class LogReaders {
 public:
  virtual ~LogReaders() = default;

  // Begins to read the output of the replica: with `follow` until it has ended, else what is there now; only the last
  // `tail_lines` of it, unless that is 0. `notify`: as StreamReader has it. An error says why it can't be read.
  virtual absl::StatusOr<std::shared_ptr<LogReader>> Open(const LogLocation& location, bool follow,
                                                          int tail_lines, std::function<void()> notify) = 0;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_LOGS_LOG_READERS_H_
