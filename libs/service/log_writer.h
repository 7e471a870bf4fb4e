// Who writes the records of log.h: a thread of its own, so that whoever logs, with whatever lock held, never
// waits for a pipe that nobody reads or for a disk that hangs. At most so many records wait; what comes
// beyond is dropped, and counted in a record that follows.
//
// Thread-safe. One per process, made by the first record and never destroyed: threads may log until the
// process is gone. An orderly end of the process flushes it.

#ifndef ADAPTDL_LIBS_SERVICE_LOG_WRITER_H_
#define ADAPTDL_LIBS_SERVICE_LOG_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"

namespace adaptdl::log {

// Waits until all records so far are written, for at most `patience`. Whether they are. For who is about to
// end the process at once, and for tests.
bool Flush(absl::Duration patience = absl::Seconds(1));

class Writer {
 public:
  static constexpr size_t kMostWaiting = 10'000;

  // `dropped` makes the record that says how many were.
  explicit Writer(std::function<void(int64_t)> dropped) : dropped_(std::move(dropped)) {}

  // Writes by and by; `write` may take as long as it likes.
  void Post(std::function<void()> write);
  // As Flush() above.
  bool Flush(absl::Duration patience);

 private:
  void Start() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();

  const std::function<void(int64_t)> dropped_;
  Mutex mutex_;
  CondVar wake_;
  CondVar written_;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
  int64_t lost_ ABSL_GUARDED_BY(mutex_) = 0;
  // Numbers of records, dropped ones left out.
  uint64_t posted_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace adaptdl::log

#endif  // ADAPTDL_LIBS_SERVICE_LOG_WRITER_H_
