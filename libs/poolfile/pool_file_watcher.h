// The pool file of a program that runs, which people edit meanwhile.
//
//   auto watcher = poolfile::PoolFileWatcher::Open("pools.yaml");
//   ... each round: (*watcher)->Get()->pools; (*watcher)->refusal()
//
// Thread-safe.

#ifndef ADAPTDL_LIBS_POOLFILE_POOL_FILE_WATCHER_H_
#define ADAPTDL_LIBS_POOLFILE_POOL_FILE_WATCHER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/poolfile/pool_file.h"
#include "libs/service/security/watched_file.h"

namespace adaptdl::poolfile {

class PoolFileWatcher {
 public:
  // Fails as ReadPoolFile does.
  static absl::StatusOr<std::unique_ptr<PoolFileWatcher>> Open(const std::string& path);

  // What the file holds now, which is looked at each time. An edit that is refused, or a file that is gone, is told in
  // the log once, and what it held last stays in force.
  std::shared_ptr<const PoolFile> Get() { return file_->Get(); }

  // Why what the file held when Get was called last is not in force. OK: it is.
  absl::Status refusal() const { return file_->refusal(); }

 private:
  using File = security::WatchedFile<PoolFile>;

  explicit PoolFileWatcher(std::unique_ptr<File> file) : file_(std::move(file)) {}

  const std::unique_ptr<File> file_;
};

}  // namespace adaptdl::poolfile

#endif  // ADAPTDL_LIBS_POOLFILE_POOL_FILE_WATCHER_H_
