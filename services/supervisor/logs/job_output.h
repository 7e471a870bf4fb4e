// Where output and files of jobs are read. A plain value, which owns nothing of what it names.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_LOGS_JOB_OUTPUT_H_
#define ADAPTDL_SERVICES_SUPERVISOR_LOGS_JOB_OUTPUT_H_

#include "absl/status/status.h"
#include "services/supervisor/logs/log_locations.h"
#include "services/supervisor/logs/log_readers.h"
#include "services/supervisor/logs/worker_channels.h"

namespace adaptdl::supervisor {

struct JobOutput {
  const LogLocations* locations = nullptr;
  LogReaders* logs = nullptr;
  // Who read files.
  WorkerChannels* workers = nullptr;
  // Why nobody does; OK: workers do.
  absl::Status files;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_LOGS_JOB_OUTPUT_H_
