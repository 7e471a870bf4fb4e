// Reads a replica's log entry by entry, across rotated files, while the shim goes on writing and rotating
// them.
//
// Not thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_LOG_CURSOR_H_
#define ADAPTDL_SERVICES_WORKER_LOG_CURSOR_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace adaptdl::worker {

struct LogEntry {
  absl::Time time;
  bool is_stderr = false;
  bool partial = false;
  std::string text;
};

// "<RFC3339Nano> stdout|stderr F|P <text>", without the line feed. Absent: it is no such line.
std::optional<LogEntry> ParseLogEntry(absl::string_view line);

class LogCursor {
 public:
  // Begins at the last `tail_lines` entries in the log in `folder`, or at its beginning if that is 0.
  LogCursor(std::string folder, int tail_lines);
  ~LogCursor();
  LogCursor(const LogCursor&) = delete;
  LogCursor& operator=(const LogCursor&) = delete;

  // The next entries, until they have about `max_bytes`. Empty: there is no more now; call again later.
  std::vector<LogEntry> Read(size_t max_bytes);

 private:
  // An open log file, which stays the same however it is renamed.
  struct File {
    int fd;
    ino_t inode;
  };

  // Opens all files that are there, oldest first.
  std::deque<File> OpenAll() const;
  void SkipTo(int tail_lines);
  // Goes to the file after the current one, if there is one.
  bool Advance();
  // Reads from the current file into buffer_. Whether there was anything.
  bool Fill();

  const std::string folder_;
  std::deque<File> files_;  // the first is being read
  int64_t offset_ = 0;      // in it
  std::string buffer_;      // read from it
  size_t parsed_ = 0;       // of buffer_
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_LOG_CURSOR_H_
