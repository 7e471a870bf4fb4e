#include "services/supervisor/store/fenced_job_store.h"

#include "absl/strings/str_cat.h"

namespace adaptdl::supervisor {

absl::Status FencedJobStore::Commit(const WriteBatch& batch) {
  if (const absl::Status valid = lease_.AwaitValid(absl::ZeroDuration()); !valid.ok()) {
    return absl::UnavailableError(absl::StrCat("leadership: ", valid.message()));
  }
  const absl::Status status = store_->Commit(batch);
  if (!status.ok()) return status;
  if (const absl::Status valid = lease_.AwaitValid(kPatience); !valid.ok()) {
    lease_.GiveUp(absl::StrCat("a change was stored that can't be confirmed: ", valid.message()));
    return absl::UnavailableError(absl::StrCat("leadership: ", valid.message()));
  }
  return status;
}

}  // namespace adaptdl::supervisor
