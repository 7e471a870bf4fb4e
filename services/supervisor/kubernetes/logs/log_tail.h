// The end of a log, of so many bytes at most, in the form of a kubelet (log_lines.h): what comes is written behind, and
// whole lines go in front.
//
// Not thread-safe. Owns its lines. No call fails.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_LOG_TAIL_H_
#define ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_LOG_TAIL_H_

#include <cstddef>
#include <deque>
#include <string>

#include "adaptdl/v1/log_service.pb.h"

namespace adaptdl::supervisor {

class LogTail {
 public:
  explicit LogTail(size_t max_bytes) : max_bytes_(max_bytes) {}

  void Add(const v1::StreamReplicaLogsResponse& lines);

  std::string Text() const;
  // Whether something has gone in front.
  bool is_cut() const { return is_cut_; }
  // Lines that came, also those that went.
  size_t lines() const { return lines_; }

 private:
  struct Entry {
    std::string text;
    // Of the same line as the one before.
    bool goes_on = false;
  };

  void Shorten();

  const size_t max_bytes_;
  std::deque<Entry> entries_;
  size_t bytes_ = 0;
  size_t lines_ = 0;
  bool is_cut_ = false;
  // Whether the last line is still to end.
  bool is_open_ = false;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_KUBERNETES_LOGS_LOG_TAIL_H_
