// The lines of a log as a kubelet sends it with its times: "2026-01-02T03:04:05.123456789Z text".
//
// Not thread-safe. Fails on nothing: a line that begins with no time has the time of the one before.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_LOG_LINES_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_LOG_LINES_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "adaptdl/v1/log_service.pb.h"

namespace adaptdl::supervisor {

class LogLines {
 public:
  // Lines with times up to `after` are left out: they were read before.
  explicit LogLines(absl::Time after = absl::InfinitePast()) : after_(after), last_(after) {}

  // Takes a part of the log, and appends what has become whole to `lines`. Of a line that is longer than 16 KiB,
  // an entry for each so many bytes.
  void Feed(absl::string_view part, v1::StreamReplicaLogsResponse* lines);
  // The log has ended, and with it its last line.
  void Finish(v1::StreamReplicaLogsResponse* lines);

  // The time of the last line.
  absl::Time last() const { return last_; }

 private:
  void AddEntry(absl::string_view text, bool is_partial, v1::StreamReplicaLogsResponse* lines);

  const absl::Time after_;
  absl::Time last_;
  // Of the line that is being read: what came of it, whether some entries of it were handed out, and whether it
  // is left out.
  std::string unfinished_;
  bool has_begun_ = false;
  bool is_old_ = false;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_LOG_LINES_H_
