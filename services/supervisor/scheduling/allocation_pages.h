// Joins the pages of an allocator's decision that is larger than a message
// (v1::ApplyAllocationsRequest.more). One decision at a time: there is one allocator that decides. What is
// kept is lost with the process, and sent again then.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_SCHEDULING_ALLOCATION_PAGES_H_
#define ADAPTDL_SERVICES_SUPERVISOR_SCHEDULING_ALLOCATION_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "adaptdl/v1/scheduling_service.pb.h"
#include "libs/base/mutex.h"

namespace adaptdl::supervisor {

class AllocationPages {
 public:
  // Decisions are at most so large, in bytes.
  explicit AllocationPages(size_t most_bytes = size_t{256} << 20) : most_bytes_(most_bytes) {}

  // The whole decision, when its last page has come; nothing before. A first page drops what was kept before.
  // ABORTED: the page does not follow the one before. RESOURCE_EXHAUSTED: the decision is too large.
  absl::StatusOr<std::optional<v1::ApplyAllocationsRequest>> Take(const v1::ApplyAllocationsRequest& page);

 private:
  const size_t most_bytes_;
  Mutex mutex_;
  // Pages so far, in one; empty: none.
  std::optional<v1::ApplyAllocationsRequest> kept_ ABSL_GUARDED_BY(mutex_);
  int32_t pages_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_SCHEDULING_ALLOCATION_PAGES_H_
