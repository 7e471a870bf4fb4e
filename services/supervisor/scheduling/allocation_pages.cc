#include "services/supervisor/scheduling/allocation_pages.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace adaptdl::supervisor {
namespace {

bool Follows(const v1::ApplyAllocationsRequest& page, const v1::ApplyAllocationsRequest& before) {
  return page.request_id() == before.request_id() && page.snapshot_version() == before.snapshot_version() &&
         page.lease_term() == before.lease_term();
}

}  // namespace

absl::StatusOr<std::optional<v1::ApplyAllocationsRequest>> AllocationPages::Take(
    const v1::ApplyAllocationsRequest& page) {
  MutexLock lock(&mutex_);
  if (page.page() == 0) {
    kept_ = v1::ApplyAllocationsRequest();
    kept_->set_request_id(page.request_id());
    kept_->set_snapshot_version(page.snapshot_version());
    kept_->set_lease_term(page.lease_term());
    pages_ = 0;
    bytes_ = 0;
  } else if (!kept_.has_value() || page.page() != pages_ || !Follows(page, *kept_)) {
    return absl::AbortedError(
        absl::StrCat("page: ", page.page(), " of decision \"", page.request_id(),
                     "\" does not follow what came before; send the decision again from page 0"));
  }
  bytes_ += page.ByteSizeLong();
  if (bytes_ > most_bytes_) {
    kept_.reset();
    return absl::ResourceExhaustedError(
        absl::StrCat("allocations: a decision may hold ", most_bytes_, " bytes; send it in parts"));
  }
  ++pages_;
  kept_->mutable_allocations()->MergeFrom(page.allocations());
  std::optional<v1::ApplyAllocationsRequest> whole;
  if (!page.more()) std::swap(whole, kept_);
  return whole;
}

}  // namespace adaptdl::supervisor
