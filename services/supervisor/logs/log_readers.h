// How the output of replicas is read, whatever runs them: from their workers (worker_log_readers.h), or from pods
// (services/supervisor/kubernetes/logs).
//
// Thread-safety: implementations are thread-safe. No call waits.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_LOGS_LOG_READERS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_LOGS_LOG_READERS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "adaptdl/v1/log_service.pb.h"
#include "services/supervisor/logs/log_locations.h"
#include "services/supervisor/logs/stream_reader.h"

namespace adaptdl::supervisor {

using LogReader = StreamReader<v1::StreamReplicaLogsResponse>;

// What is wanted of a replica's output. A reader may give more than that, but for `tail_lines`: who reads filters again.
struct LogWish {
  // Until the replica has ended, else what is there now.
  bool follow = false;
  // Only the last so many lines of those that are wanted otherwise. 0: all.
  int tail_lines = 0;
  // As in StreamLogsRequest; infinite past, empty: all.
  absl::Time since = absl::InfinitePast();
  std::string pattern = {};
};

class LogReaders {
 public:
  virtual ~LogReaders() = default;

  // Begins to read the output of the replica. `notify`: as StreamReader has it. An error says why it can't be read.
  virtual absl::StatusOr<std::shared_ptr<LogReader>> Open(const LogLocation& location, const LogWish& wish,
                                                          std::function<void()> notify) = 0;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_LOGS_LOG_READERS_H_
