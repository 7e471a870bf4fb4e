#include "services/allocator/decision_pages.h"

#include <cstdint>
#include <utility>

namespace adaptdl::allocator {

std::vector<v1::ApplyAllocationsRequest> SplitDecision(v1::ApplyAllocationsRequest decision, size_t bytes) {
  google::protobuf::RepeatedPtrField<v1::JobAllocation> allocations;
  allocations.Swap(decision.mutable_allocations());
  std::vector<v1::ApplyAllocationsRequest> pages = {decision};
  size_t size = 0;
  for (v1::JobAllocation& allocation : allocations) {
    if (size > bytes) {
      pages.back().set_more(true);
      pages.push_back(decision);
      pages.back().set_page(static_cast<int32_t>(pages.size()) - 1);
      size = 0;
    }
    size += allocation.ByteSizeLong();
    *pages.back().add_allocations() = std::move(allocation);
  }
  return pages;
}

}  // namespace adaptdl::allocator
