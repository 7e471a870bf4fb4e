// The log of a replica: one file in the CRI format, rotated by size.
//
//   2026-01-02T03:04:05.123456789Z stdout F a whole line
//   2026-01-02T03:04:05.123456789Z stderr P the first part of a line that goes on in the next entry
//
// Never fails and never waits for space: what can't be written is dropped and counted, and the log says so
// once there is space again.
//
// Not thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_SHIM_CRI_LOG_H_
#define ADAPTDL_SERVICES_WORKER_SHIM_CRI_LOG_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace adaptdl::worker {

// Longest text of one entry, in bytes.
inline constexpr size_t kMaxLogText = 16 << 10;

enum class LogStream { kStdout = 0, kStderr = 1 };

class CriLogWriter {
 public:
  struct Options {
    // File being written; rotated ones get ".1" (newest), ".2" and so on appended.
    std::string path;
    // Size at which the file is rotated, in bytes.
    int64_t max_file_bytes = int64_t{10} << 20;
    // Files kept, with the one being written. At least 1.
    int max_files = 5;
    // write(2), so that tests can fill the disk.
    std::function<ssize_t(int fd, const void* data, size_t size)> write;
  };

  explicit CriLogWriter(Options options);
  ~CriLogWriter();
  CriLogWriter(const CriLogWriter&) = delete;
  CriLogWriter& operator=(const CriLogWriter&) = delete;

  // Takes what the process wrote. An unfinished line waits for its rest, up to kMaxLogText bytes.
  void Append(LogStream stream, absl::string_view data, absl::Time now);

  // Writes a line of our own.
  void AppendNote(absl::string_view text, absl::Time now);

  // Writes the unfinished lines of both streams. Nothing may be appended afterwards.
  void Finish(absl::Time now);

  // Bytes of output that could not be written so far.
  int64_t dropped_bytes() const { return total_dropped_; }

 private:
  void AddEntry(LogStream stream, bool partial, absl::string_view text, absl::string_view timestamp);
  void Flush(absl::Time now);
  // Whether all of `entries` is in the file; if not, none of it is.
  bool WriteEntries(absl::string_view entries);
  bool EnsureOpen();
  void Rotate();
  void ReportDropped(absl::Time now);

  const Options options_;
  int fd_ = -1;
  int64_t file_bytes_ = 0;
  std::string pending_[2];  // unfinished line of each stream
  std::string batch_;       // entries to write
  int64_t batch_text_ = 0;  // bytes of output in it
  int64_t unreported_dropped_ = 0;
  int64_t total_dropped_ = 0;
  int last_error_ = 0;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_SHIM_CRI_LOG_H_
