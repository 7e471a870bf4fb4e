// Who changed what, and who was refused: one line of JSON per call, in a file that never grows beyond bounds.
//
//   {"time":"2026-01-31T12:00:00.123Z","caller":"token \"ci\"","role":"user","peer":"ipv4:10.0.0.7:50912",
//    "method":"/adaptdl.v1.JobService/CancelJob","namespace":"vision","name":"resnet","request_id":"...",
//    "code":"OK"}
//
// Fields that do not apply are absent. No secrets, no environment variables, no commands of jobs.
//
// When the file is full it becomes FILE.1, that one FILE.2, and so on. Old files go by their age, and before
// that only if all together would take too much of the disk.
//
// Calls that did what they were to do are all noted. Those that failed are not worth as much, and anybody can
// make many:
//   - The same failure of the same caller is one record for a minute, and another one that says how often it
//     came again ("repeated"), and since when ("since"). That one is written with the first record after the
//     minute.
//   - Each caller has so many failures noted at once and in the long run; the next one of the caller says how
//     many were left out ("left_out"). All who are not known count as one caller, by host where that is
//     known.
//
// Thread-safe. Each record is written at once, by the thread that brings it.

#ifndef ADAPTDL_LIBS_SERVICE_SECURITY_AUDIT_LOG_H_
#define ADAPTDL_LIBS_SERVICE_SECURITY_AUDIT_LOG_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/base/token_buckets.h"

namespace adaptdl::security {

struct AuditOptions {
  std::string path;
  // Size at which a new file is begun.
  int64_t max_bytes = int64_t{32} << 20;
  // How long old files are kept, counted from their last record; at most so many bytes with all of them.
  absl::Duration keep = absl::Hours(24 * 90);
  int64_t max_total_bytes = int64_t{4} << 30;
  // Failures of one caller that are noted at once, and how long until one more is.
  int max_failures = 20;
  absl::Duration failure_period = absl::Seconds(10);
  // How long the same failure is one record.
  absl::Duration fold_within = absl::Minutes(1);
};

struct AuditRecord {
  // Empty: who called is not known.
  std::string caller;
  std::string role;
  // Address. Empty: refused before it was known.
  std::string peer;
  std::string method;
  std::string name_space;
  // Of the job.
  std::string name;
  std::string node;
  std::string request_id;
  absl::StatusCode code = absl::StatusCode::kOk;
  // Refused for what the caller is, or is not.
  bool refused = false;
};

class AuditLog {
 public:
  // `clock` outlives it. Fails if the file can't be written.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const AuditOptions& options, const Clock* clock);
  ~AuditLog();

  // A record that can't be written is reported in the log; the call it is about goes on.
  void Write(const AuditRecord& record);

 private:
  // A failure that was noted, and came again since.
  struct Folded {
    AuditRecord record;
    absl::Time first;
    absl::Time last;
    int64_t repeated = 0;
  };

  AuditLog(const AuditOptions& options, const Clock* clock)
      : options_(options), clock_(clock), failures_(options.max_failures, options.failure_period) {}

  // Counts a failure, and says whether it is to be noted now.
  bool TakeFailure(const AuditRecord& record, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Writes what was folded and is complete as of `now`.
  void Unfold(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteLine(const std::string& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Opens the file, unless it is the one that is open: another process may have moved it away.
  absl::Status Reopen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Append(const std::string& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Rotate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes old files that are too old, or too many.
  void Prune() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AuditOptions options_;
  const Clock* const clock_;
  Mutex mutex_;
  int fd_ ABSL_GUARDED_BY(mutex_) = -1;
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  TokenBuckets failures_ ABSL_GUARDED_BY(mutex_);
  // Failures that were left out since the last one noted, by caller.
  std::map<std::string, int64_t> left_out_ ABSL_GUARDED_BY(mutex_);
  // By caller and all that makes them the same.
  std::map<std::string, Folded> folded_ ABSL_GUARDED_BY(mutex_);
  // No folded failure is complete before.
  absl::Time next_unfold_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
};

}  // namespace adaptdl::security

#endif  // ADAPTDL_LIBS_SERVICE_SECURITY_AUDIT_LOG_H_
