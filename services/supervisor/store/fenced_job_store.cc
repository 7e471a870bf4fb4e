#include "services/supervisor/store/fenced_job_store.h"

#include "absl/strings/str_cat.h"

namespace adaptdl::supervisor {

absl::Status FencedJobStore::Commit(const WriteBatch& batch) {
  if (const absl::Status valid = lease_.AwaitValid(absl::ZeroDuration()); !valid.ok()) {
    return absl::UnavailableError(absl::StrCat("leadership: ", valid.message()));
  }
  return store_->Commit(batch);
}

absl::Status FencedJobStore::Sync() {
  if (const absl::Status status = store_->Sync(); !status.ok()) return status;
  const absl::Status valid = lease_.AwaitValid(kPatience);
  if (!valid.ok()) {
    lease_.GiveUp(absl::StrCat("changes were stored that can't be confirmed: ", valid.message()));
  }
  return valid;
}

}  // namespace adaptdl::supervisor
