// What was kept of a replica's output, piece by piece. It is always ready or done: nobody is notified.
//
// Not thread-safe. Owns the file. Done with DATA_LOSS: something is missing.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_KEPT_LOG_READER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_KEPT_LOG_READER_H_

#include <string>

#include "absl/time/time.h"
#include "services/supervisor/kubernetes/logs/kept_logs.h"
#include "services/supervisor/kubernetes/logs/log_lines.h"
#include "services/supervisor/logs/log_readers.h"

namespace adaptdl::supervisor {

class KeptLogReader final : public LogReader {
 public:
  // Only the last so many lines, unless it is 0, and only those later than `after`. With a pattern that is valid: from
  // the last so many lines on that have it in them.
  KeptLogReader(KeptLogFile file, int tail_lines, absl::Time after = absl::InfinitePast(),
                const std::string& pattern = "");

  State state() const override { return is_done_ ? State::kDone : State::kReady; }
  grpc::Status status() const override;
  v1::StreamReplicaLogsResponse Take() override;
  void Abandon() override {}

 private:
  // Goes to the first of the last so many lines. False: there are not so many.
  bool Seek(int tail_lines, const std::string& pattern);
  // Reads ahead.
  void Read();

  KeptLogFile file_;
  bool misses_beginning_ = false;
  LogLines parser_;
  v1::StreamReplicaLogsResponse next_;
  bool is_done_ = false;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_KEPT_LOG_READER_H_
