// What a job's checkpoint folder on this node holds that is complete.
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_OBJECTS_CHECKPOINT_FOLDER_H_
#define ADAPTDL_SERVICES_WORKER_OBJECTS_CHECKPOINT_FOLDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/worker/objects/local_files.h"
#include "services/worker/objects/snapshot.h"

namespace adaptdl::worker {

struct LocalCheckpoint {
  // None: the training library has not written it, and so nothing says which one it is.
  std::optional<SnapshotId> id;
  std::vector<LocalFile> files;
};

// The newest checkpoint of the training library, which writes each into a folder of its own and names that when it is complete
// (libs/elastic/checkpoint). Where there is none, and nobody writes any more (`at_rest`), all files of the folder together. None:
// there is nothing.
absl::StatusOr<std::optional<LocalCheckpoint>> FindCheckpoint(const std::string& folder, bool at_rest);

// Says of the folder's files whether they are still those that they were: names, sizes and times.
absl::StatusOr<std::string> FingerprintOf(const std::string& folder);

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_OBJECTS_CHECKPOINT_FOLDER_H_
