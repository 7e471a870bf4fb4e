// Keeps two commands from changing the same cluster at a time. Held for the object's life, and never by a
// program that the holder starts.

#ifndef ADAPTDL_CLI_CLUSTER_FOLDER_LOCK_H_
#define ADAPTDL_CLI_CLUSTER_FOLDER_LOCK_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace adaptdl::cli {

class FolderLock {
 public:
  // Takes "<folder>/lock" without waiting. ABORTED: somebody else holds it.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Take(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}

  const int fd_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_CLUSTER_FOLDER_LOCK_H_
