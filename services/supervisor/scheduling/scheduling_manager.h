// What the allocator sees of the cluster, and what it decides. Thread-safe; all errors are those that it
// sees.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_SCHEDULING_SCHEDULING_MANAGER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_SCHEDULING_SCHEDULING_MANAGER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "adaptdl/v1/scheduling_service.pb.h"
#include "services/supervisor/jobs/reconciler.h"
#include "services/supervisor/scheduling/allocation_pages.h"
#include "services/supervisor/scheduling/allocator_lease.h"
#include "services/supervisor/state/cluster_update.h"
#include "services/supervisor/state/core.h"

namespace adaptdl::supervisor {

class SchedulingManager {
 public:
  // Both outlive it. `lease`: how long an allocator's lease lasts without renewal.
  SchedulingManager(Core* core, Reconciler* reconciler, absl::Duration lease)
      : core_(core), reconciler_(reconciler), lease_(lease) {}

  // The cluster as it is.
  ClusterUpdate View() const;
  // What the news are about, as it is now, which may be newer than they are; the version is theirs.
  ClusterUpdate ViewOfChange(const ClusterNews& news) const;
  absl::StatusOr<v1::AcquireLeaseResponse> AcquireLease(const v1::AcquireLeaseRequest& request);
  // Also takes pages of a decision, which is applied when the last one has come. `caller`: who has proved to
  // be it (Admission::IdentityOf).
  absl::StatusOr<v1::ApplyAllocationsResponse> ApplyAllocations(const v1::ApplyAllocationsRequest& request,
                                                                const std::string& caller);

 private:
  absl::StatusOr<v1::ApplyAllocationsResponse> ApplyDecision(const v1::ApplyAllocationsRequest& request,
                                                             const std::string& caller);
  absl::StatusOr<v1::ApplyAllocationsResponse> Apply(Transaction* transaction,
                                                     const v1::ApplyAllocationsRequest& request);

  Core* const core_;
  Reconciler* const reconciler_;
  AllocatorLease lease_;
  AllocationPages pages_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_SCHEDULING_SCHEDULING_MANAGER_H_
