// Which allocator decides. Soft: a supervisor that was restarted gives the lease to whoever asks first.
// Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_SCHEDULING_ALLOCATOR_LEASE_H_
#define ADAPTDL_SERVICES_SUPERVISOR_SCHEDULING_ALLOCATOR_LEASE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "adaptdl/v1/scheduling_service.pb.h"
#include "libs/base/mutex.h"

namespace adaptdl::supervisor {

class AllocatorLease {
 public:
  // `length`: how long it lasts without renewal.
  explicit AllocatorLease(absl::Duration length) : length_(length) {}

  // Takes or renews the lease at `now` (steady), in this `term` of the supervisor.
  v1::AcquireLeaseResponse Acquire(const std::string& holder, int64_t term, absl::Time now);

  // Whether whoever got this number may decide. FAILED_PRECONDITION: another one does.
  absl::Status Check(int64_t lease_term, absl::Time now) const;

 private:
  const absl::Duration length_;
  mutable Mutex mutex_;
  std::string holder_ ABSL_GUARDED_BY(mutex_);
  int64_t term_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_SCHEDULING_ALLOCATOR_LEASE_H_
