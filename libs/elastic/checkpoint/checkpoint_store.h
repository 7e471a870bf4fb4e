// Versioned checkpoints in one folder.
//
//   <folder>/checkpoint-<n>/<state>      one file per named state
//   <folder>/checkpoint-<n>/MANIFEST     written last: names, sizes and checksums of the files, checksum of
//   itself
//
// A checkpoint is written into ".writing-<group>-<random>", synced file by file, renamed, and the folder
// synced, so that a crash at any point leaves the older ones as they were. The newest checkpoint whose
// manifest and checksums hold is the one that counts; the newest ones are kept.
//
// Thread-safety: not thread-safe. One process writes at a time; a second writer fails or wins cleanly.

#ifndef ADAPTDL_LIBS_ELASTIC_CHECKPOINT_CHECKPOINT_STORE_H_
#define ADAPTDL_LIBS_ELASTIC_CHECKPOINT_CHECKPOINT_STORE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl::elastic {

// Named states of a job, as bytes.
using StateMap = std::map<std::string, std::string>;

struct Checkpoint {
  int64_t version = 0;
  // Group that wrote it. 0: standalone.
  int64_t group = 0;
  StateMap states;
};

class CheckpointStore {
 public:
  struct Options {
    std::string folder;
    // Group that writes; a newer group's checkpoints are never written over or after.
    int64_t group = 0;
    // Complete checkpoints that stay.
    int keep = 2;
    // Told of every step of writing before it is taken; an error makes the step fail. For tests.
    std::function<absl::Status(absl::string_view step)> before_step = nullptr;
  };

  explicit CheckpointStore(Options options);

  // The group that writes from now on. From any thread.
  void SetGroup(int64_t group) { group_ = group; }

  // Writes the next version. Any error leaves the older ones usable: RESOURCE_EXHAUSTED when the disk is
  // full, ABORTED when a newer group has written.
  absl::StatusOr<int64_t> Save(const StateMap& states);

  // The newest valid one. NOT_FOUND: there is none. Says on stderr which ones it passed over, and why.
  absl::StatusOr<Checkpoint> LoadNewest();

 private:
  absl::Status WriteStates(const std::string& folder, const StateMap& states) const;
  absl::Status WriteFile(const std::string& path, absl::string_view content) const;
  absl::Status BeforeStep(absl::string_view step) const;
  void RemoveOld(int64_t newest) const;
  // Removes what crashed writers left.
  void RemoveUnfinished() const;

  const Options options_;
  std::atomic<int64_t> group_;
  // Versions that LoadNewest() passed over.
  std::set<int64_t> damaged_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_CHECKPOINT_CHECKPOINT_STORE_H_
