// Names that become parts of paths, checked again here: whatever the supervisor sends, nothing is ever
// touched outside the worker's own folders. Thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_NAMES_H_
#define ADAPTDL_SERVICES_WORKER_NAMES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace adaptdl::worker {

// Of [a-z0-9.-], 1 to `max_length` characters, the first a letter or digit. INVALID_ARGUMENT names `field`
// and the value.
absl::Status CheckName(absl::string_view field, absl::string_view value, size_t max_length);

absl::Status CheckReplicaId(absl::string_view replica_id);

// Of the job that these three name.
absl::Status CheckJobNames(absl::string_view job_namespace, absl::string_view job, absl::string_view job_uid);

// "<namespace>/<job>-<uid>", the job's folder within the storage folder. The names must have been checked.
std::string JobFolderName(absl::string_view job_namespace, absl::string_view job, absl::string_view job_uid);

inline constexpr char kCheckpointFolder[] = "checkpoint";
inline constexpr char kShareFolder[] = "share";

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_NAMES_H_
