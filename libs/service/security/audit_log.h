// Who changed what, and who was refused: one line of JSON per call, in a file that never grows beyond bounds.
//
//   {"time":"2026-01-31T12:00:00.123Z","caller":"token \"ci\"","role":"user","peer":"ipv4:10.0.0.7:50912",
//    "method":"/adaptdl.v1.JobService/CancelJob","namespace":"vision","name":"resnet","request_id":"...",
//    "code":"OK"}
//
// Fields that do not apply are absent. No secrets, no environment variables, no commands of jobs.
//
// When the file is full it becomes FILE.1, that one FILE.2, and so on; the last one goes. Refused calls are
// limited in number, so that a stranger can't push out what matters: the next record of one says how many
// were left out ("left_out").
//
// Thread-safe. Each record is written at once, by the thread that brings it.

#ifndef ADAPTDL_LIBS_SERVICE_SECURITY_AUDIT_LOG_H_
#define ADAPTDL_LIBS_SERVICE_SECURITY_AUDIT_LOG_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"

namespace adaptdl::security {

struct AuditOptions {
  std::string path;
  // Size at which a new file is begun.
  int64_t max_bytes = int64_t{32} << 20;
  // Old files that are kept.
  int max_old_files = 4;
  // Refused calls that are noted per second.
  int max_refusals_per_second = 20;
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
  AuditLog(const AuditOptions& options, const Clock* clock) : options_(options), clock_(clock) {}

  // Counts a refusal. Whether it is one too many.
  bool TooMany(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Opens the file, unless it is the one that is open: another process may have moved it away.
  absl::Status Reopen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Append(const std::string& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Rotate() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AuditOptions options_;
  const Clock* const clock_;
  Mutex mutex_;
  int fd_ ABSL_GUARDED_BY(mutex_) = -1;
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // The second that refusals are counted in, those noted in it, and those left out since the last one noted.
  int64_t second_ ABSL_GUARDED_BY(mutex_) = 0;
  int refusals_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace adaptdl::security

#endif  // ADAPTDL_LIBS_SERVICE_SECURITY_AUDIT_LOG_H_
