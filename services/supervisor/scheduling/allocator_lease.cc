#include "services/supervisor/scheduling/allocator_lease.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/service/log.h"
#include "services/supervisor/store/convert.h"

namespace adaptdl::supervisor {
namespace {

// So many leases may be given in one term of a supervisor; a term is a number of milliseconds.
constexpr int kLeaseTermBits = 20;

}  // namespace

v1::AcquireLeaseResponse AllocatorLease::Acquire(const std::string& holder, int64_t term, absl::Time now) {
  MutexLock lock(&mutex_);
  if (holder_ != holder && now >= until_) {
    holder_ = holder;
    // Larger than all that other supervisors gave in earlier terms.
    term_ = std::max(term_ + 1, term << kLeaseTermBits);
    log::Info("an allocator has taken the lease",
              {{"allocator", holder_}, {"lease_term", absl::StrCat(term_)}});
  }
  v1::AcquireLeaseResponse response;
  response.set_granted(holder_ == holder);
  response.set_holder(holder_);
  if (response.granted()) {
    until_ = now + length_;
    response.set_lease_term(term_);
  }
  *response.mutable_duration() = ToProto(until_ - now);
  return response;
}

absl::Status AllocatorLease::Check(int64_t lease_term, absl::Time now) const {
  MutexLock lock(&mutex_);
  if (lease_term == term_) return absl::OkStatus();
  if (lease_term == 0 && now >= until_) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("lease_term: ", lease_term,
                                                    " is not the one that counts; allocator \"", holder_,
                                                    "\" decides; acquire the lease first"));
}

}  // namespace adaptdl::supervisor
