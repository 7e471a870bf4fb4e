// A checkpoint in an object store:
//
//   <prefix>/files/<group>-<version>/<path>    its files
//   <prefix>/manifests/<group>-<version>       written last: names, sizes and checksums of the files, checksum of itself
//
// Numbers have twenty digits, so that the last manifest in the list is the newest checkpoint. There is none without a manifest,
// and no object is ever written over: what two nodes do at a time can't mix.
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_OBJECTS_SNAPSHOT_H_
#define ADAPTDL_SERVICES_WORKER_OBJECTS_SNAPSHOT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl::worker {

// Which checkpoint: those of a later group are newer, and in a group those of a higher version.
struct SnapshotId {
  // Group that wrote it.
  int64_t group = 0;
  int64_t version = 0;

  friend auto operator<=>(const SnapshotId&, const SnapshotId&) = default;
};

struct SnapshotFile {
  // Relative to the job's checkpoint folder.
  std::string path;
  int64_t size = 0;
  // As lower-case hexadecimal digits.
  std::string sha256;

  friend bool operator==(const SnapshotFile&, const SnapshotFile&) = default;
};

inline constexpr int64_t kMaxManifestBytes = int64_t{64} << 20;

// "00000000000000000003-00000000000000000007", and back; none: the name is no such thing.
std::string SnapshotName(const SnapshotId& id);
std::optional<SnapshotId> ParseSnapshotName(absl::string_view name);

std::string ManifestOf(const std::vector<SnapshotFile>& files);
// DATA_LOSS: it is damaged, or names what is no file of a checkpoint.
absl::StatusOr<std::vector<SnapshotFile>> ParseManifest(absl::string_view text);

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_OBJECTS_SNAPSHOT_H_
