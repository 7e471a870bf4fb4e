// What is not waited for any longer: starts and ends of replicas, where the storage or the supervisor hangs.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "services/worker/replica_end.h"
#include "services/worker/replica_manager.h"

namespace adaptdl::worker {

void ReplicaManager::GiveUpOnStorage() {
  std::vector<std::pair<std::string, ExitRecord>> ends;
  {
    MutexLock lock(&mutex_);
    const Moment now = clock_->Both();
    for (auto& [replica_id, entry] : replicas_) {
      if (HasEnded(entry.report.replica())) continue;
      if (entry.end.has_value() && now - entry.end_since >= options_.probe_patience) {
        ends.emplace_back(replica_id, *entry.end);
      }
      if (const auto late = EndOfPatience(entry, now); late.has_value()) EndWithoutProcess(&entry, *late);
    }
  }
  for (auto& [replica_id, record] : ends) {
    record.cause = Cause::kStorage;
    absl::StrAppend(&record.message, record.message.empty() ? "" : "; ", "the storage does not answer");
    TakeEndOf(replica_id, record);
  }
}

std::optional<ExitRecord> ReplicaManager::EndOfPatience(const Entry& entry, const Moment& now) const {
  const bool fetching = entry.start == Start::kFetching;
  if (!fetching && entry.start != Start::kPreparing) return std::nullopt;
  // A fetch that takes long ends by itself, and then says more.
  const absl::Duration patience =
      options_.start_patience + (fetching ? options_.code.timeout : absl::ZeroDuration());
  if (now - entry.start_time < patience) return std::nullopt;
  const absl::Status late = absl::DeadlineExceededError(absl::StrCat(
      fetching ? "the folder that comes with the job" : "its folders",
      fetching ? " could not be fetched and unpacked within " : " could not be prepared within ",
      absl::FormatDuration(patience),
      fetching ? ": the supervisor, or the node's disk, does not answer" : ": the storage does not answer"));
  return NotStarted(late, Cause::kStorage, now.wall);
}

}  // namespace adaptdl::worker
