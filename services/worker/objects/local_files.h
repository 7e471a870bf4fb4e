// Files in folders that others may change under our hands: a job's own. No link is ever followed, and what is neither file nor
// folder is left out.
//
// Plain functions; thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_OBJECTS_LOCAL_FILES_H_
#define ADAPTDL_SERVICES_WORKER_OBJECTS_LOCAL_FILES_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/base/unique_fd.h"
#include "libs/objectstore/object_store.h"

namespace adaptdl::worker {

struct LocalFile {
  // Relative to the folder that was looked through.
  std::string path;
  int64_t size = 0;
  // Of its last change.
  int64_t changed_ns = 0;

  friend auto operator<=>(const LocalFile&, const LocalFile&) = default;
};

// All files below `folder`, in order of their paths; names that begin with a dot are left out, with all below, and those that can't
// be a part of a key. None where the folder is not there. OUT_OF_RANGE: more than 100,000 files, or folders in folders in folders.
absl::StatusOr<std::vector<LocalFile>> ListFiles(const std::string& folder);

// Opens a file below `folder` for reading. FAILED_PRECONDITION: it is no file any more.
absl::StatusOr<UniqueFd> OpenFile(const std::string& folder, const std::string& path);

// Reads of an open file.
objectstore::ObjectStore::Source SourceOf(const UniqueFd& file);

// Who files belong to. None: to this process.
struct FileOwner {
  uid_t uid = 0;
  gid_t gid = 0;
};

// A file that comes by parts, in a folder of our own: written, synced, checked. Not thread-safe.
class FileWriter {
 public:
  // Makes the folders above it. `resume`: goes on behind what is there already.
  static absl::StatusOr<FileWriter> Create(const std::string& path, bool resume = false);

  int64_t size() const { return size_; }
  absl::Status Append(absl::string_view part);
  absl::Status Finish(const std::optional<FileOwner>& owner);

 private:
  FileWriter(std::string path, UniqueFd file, int64_t size)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {}

  std::string path_;
  UniqueFd file_;
  int64_t size_;
};

// RESOURCE_EXHAUSTED: there is no room for so many bytes where `folder` is.
absl::Status CheckRoom(const std::string& folder, int64_t bytes);

// Gives a folder of our own, and the folders below it, to the owner, for nobody else to look into.
absl::Status GiveFolders(const std::string& folder, const std::optional<FileOwner>& owner);

// Moves a file of our own to `path` below `folder`, in place of what is there; folders in between are made, for the owner.
absl::Status MoveInto(const std::string& file, const std::string& folder, const std::string& path,
                      const std::optional<FileOwner>& owner);

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_OBJECTS_LOCAL_FILES_H_
