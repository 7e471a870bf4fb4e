// The last lines of what comes, so many and of so many bytes at most.
//
// Not thread-safe. Owns the lines.

#ifndef ADAPTDL_LIBS_LOGS_LAST_LINES_H_
#define ADAPTDL_LIBS_LOGS_LAST_LINES_H_

#include <cstddef>
#include <deque>

#include "adaptdl/v1/job_service.pb.h"
#include "libs/logs/line_filter.h"

namespace adaptdl::logs {

class LastLines {
 public:
  // `lines`: at least 1. Parts of a line (LogLine.partial) count as one line together.
  explicit LastLines(int lines, size_t max_bytes = 4 << 20) : max_lines_(lines), max_bytes_(max_bytes) {}

  void Add(v1::LogLine line);
  // Hands out what it has, in the order in which it came, and has nothing any more.
  void TakeAll(Lines* lines);

 private:
  // The first line goes, with all its parts.
  void DropFirst();

  const int max_lines_;
  const size_t max_bytes_;
  std::deque<v1::LogLine> entries_;
  // Lines that have ended.
  int lines_ = 0;
  size_t bytes_ = 0;
};

}  // namespace adaptdl::logs

#endif  // ADAPTDL_LIBS_LOGS_LAST_LINES_H_
