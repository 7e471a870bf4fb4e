#include "services/supervisor/kubernetes/logs/pod_log_readers.h"

#include <utility>

#include "services/supervisor/kubernetes/logs/kept_log_reader.h"

namespace adaptdl::supervisor {

absl::StatusOr<KeptLogFile> PodLogReaders::OpenKept(const LogLocation& location) const {
  const std::string gone = "its pod is gone, and nothing of its output was kept by this supervisor";
  if (kept_ == nullptr) return absl::NotFoundError(gone);
  absl::StatusOr<KeptLogFile> file = kept_->Open(location.job_uid, location.replica.replica_id());
  return absl::IsNotFound(file.status()) ? absl::NotFoundError(gone) : std::move(file);
}

absl::StatusOr<std::shared_ptr<LogReader>> PodLogReaders::Open(const LogLocation& location,
                                                               const LogWish& wish,
                                                               std::function<void()> notify) {
  const PodValue pod = watch_.Find(location.replica.replica_id());
  // One that says that it is the replica, but is in another namespace or of another job, is somebody else's.
  if (pod != nullptr && pod->job_uid == location.job_uid && pod->key.name_space == location.name_space) {
    const PodLogRequest request = {.pod = pod->key,
                                   .container = pod->container,
                                   .follow = wish.follow,
                                   .tail_lines = wish.tail_lines,
                                   .since = wish.since,
                                   .pattern = wish.pattern};
    return logs_.Start(request, std::move(notify), [this, location] { return OpenKept(location); });
  }
  absl::StatusOr<KeptLogFile> file = OpenKept(location);
  if (!file.ok()) return file.status();
  return std::make_shared<KeptLogReader>(*std::move(file), wish.tail_lines, absl::InfinitePast(),
                                         wish.pattern);
}

}  // namespace adaptdl::supervisor
