// Who may use how much of the supervisor, so that no client takes it from the others.
//
//   - calls: each caller has a token bucket
//   - streams: each caller has so many open at a time
//   - changes (submissions, cancellations, ...): while the executor's queue is long, more are shed
//
// What is refused gets RESOURCE_EXHAUSTED with the time after which it may be tried again
// (libs/rpc/retry_info.h). Nodes, replicas, the allocator and the autoscaler are not asked, and heartbeats do
// not come through the executor: under overload changes are shed, and leases are not lost.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_CALLS_ADMISSION_H_
#define ADAPTDL_SERVICES_SUPERVISOR_CALLS_ADMISSION_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/service/security/guard.h"

namespace adaptdl::supervisor {

struct AdmissionOptions {
  // Of one caller, in the long run and at once. 0: no bound.
  double calls_per_second = 500;
  double burst = 2000;
  // Open streams of one caller. 0: no bound.
  int streams = 1000;
  // Tasks that may wait for the executor while changes are taken.
  size_t queue = 1000;
};

// Counts of what was refused, by cause. Called with a lock held: it must not call back.
using OnRefused = std::function<void(const char* cause)>;

class Admission {
 public:
  // `clock` outlives it.
  Admission(const AdmissionOptions& options, const Clock* clock);

  void SetOnRefused(OnRefused on_refused);

  // The caller of a call: by name where the guard knows callers, else the host that it comes from.
  static std::string CallerOf(const grpc::ServerContextBase& context, const security::Guard& guard);

  // Whose request ids the call's is among: what has proved who calls, and its name there. Empty where
  // everybody may do everything, and comes from wherever it likes.
  static std::string IdentityOf(const grpc::ServerContextBase& context, const security::Guard& guard);

  // Whether the caller may make a call now.
  absl::Status Call(const std::string& caller);

  // Whether the caller may open a stream now. It is open until the result is destroyed.
  absl::StatusOr<std::shared_ptr<void>> Stream(const std::string& caller);

  // Whether the caller may change something now that so many tasks wait for the executor.
  absl::Status Change(const std::string& caller, size_t waiting);

 private:
  struct Caller {
    double tokens = 0;
    absl::Time filled;
    int streams = 0;
  };

  // Tokens are as of now.
  Caller& Find(const std::string& caller) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets callers that have not called for long.
  void Sweep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CloseStream(const std::string& caller);
  absl::Status Refuse(const char* cause, std::string text, absl::Duration delay)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AdmissionOptions options_;
  const Clock* const clock_;

  Mutex mutex_;
  std::map<std::string, Caller> callers_ ABSL_GUARDED_BY(mutex_);
  size_t sweep_at_ ABSL_GUARDED_BY(mutex_) = 1024;
  OnRefused on_refused_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_CALLS_ADMISSION_H_
