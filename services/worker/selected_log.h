// What somebody wants of a replica's log: all of it, its last lines, those since a time, those with a pattern in them.
//
// Not thread-safe. Owns its cursor.

#ifndef ADAPTDL_SERVICES_WORKER_SELECTED_LOG_H_
#define ADAPTDL_SERVICES_WORKER_SELECTED_LOG_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "adaptdl/v1/log_service.pb.h"
#include "libs/logs/last_lines.h"
#include "libs/logs/line_filter.h"
#include "services/worker/log_cursor.h"

namespace adaptdl::worker {

class SelectedLog {
 public:
  // The log in `folder`, of which `request` says what is wanted. INVALID_ARGUMENT: it can't be.
  static absl::StatusOr<std::unique_ptr<SelectedLog>> Open(const std::string& folder,
                                                           const v1::StreamReplicaLogsRequest& request);

  // Reads on, about `max_bytes`, and appends what is wanted of it. `is_complete`: nothing will be added to the log any
  // more. False: it has come to the end of what there is now.
  bool Read(size_t max_bytes, bool is_complete, logs::Lines* wanted);

 private:
  SelectedLog(const std::string& folder, const v1::StreamReplicaLogsRequest& request,
              std::unique_ptr<logs::LineFilter> filter);

  LogCursor cursor_;
  // Null: all lines are wanted.
  const std::unique_ptr<logs::LineFilter> filter_;
  // While the last lines that a pattern leaves are still looked for.
  std::optional<logs::LastLines> last_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_SELECTED_LOG_H_
