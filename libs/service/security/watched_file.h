// A file that may be replaced while the program runs, parsed.
//
//   auto tokens = WatchedFile<TokenTable>::Open(path, [](const std::string& path) {...});
//   (*tokens)->Get()->Find(...)
//
// What it holds is called `what` in the log: "a file of credentials".
//
// Thread-safe.

#ifndef ADAPTDL_LIBS_SERVICE_SECURITY_WATCHED_FILE_H_
#define ADAPTDL_LIBS_SERVICE_SECURITY_WATCHED_FILE_H_

#include <sys/stat.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/base/mutex.h"
#include "libs/service/log.h"

namespace adaptdl::security {

template <typename Parsed>
class WatchedFile {
 public:
  using Read = std::function<absl::StatusOr<std::shared_ptr<const Parsed>>(const std::string& path)>;

  // Reads the file; fails as `read` does.
  static absl::StatusOr<std::unique_ptr<WatchedFile>> Open(std::string path, Read read,
                                                           std::string what = "a file of credentials") {
    std::unique_ptr<WatchedFile> file(new WatchedFile(std::move(path), std::move(read), std::move(what)));
    MutexLock lock(&file->mutex_);
    file->version_ = file->LookAt();
    absl::StatusOr<std::shared_ptr<const Parsed>> parsed = file->read_(file->path_);
    if (!parsed.ok()) return parsed.status();
    file->parsed_ = *std::move(parsed);
    return file;
  }

  // What the file holds now: it is looked at each time, which takes a microsecond or two, so that whoever has
  // made a token can use it, and whoever has revoked one can rely on it. A file that is gone or has become
  // invalid is reported in the log, once per change, and what it held last stays in force.
  std::shared_ptr<const Parsed> Get() {
    MutexLock lock(&mutex_);
    const Version version = LookAt();
    if (version == version_) return parsed_;
    version_ = version;
    absl::StatusOr<std::shared_ptr<const Parsed>> parsed = read_(path_);
    if (parsed.ok()) {
      parsed_ = *std::move(parsed);
      log::Info(what_ + " was read again", {{"file", path_}});
    } else {
      log::Error(what_ + " can't be read; what it held before stays in force",
                 {{"file", path_}, {"reason", std::string(parsed.status().message())}});
    }
    refusal_ = parsed.status();
    return parsed_;
  }

  // Why what the file held when Get was called last is not in force. OK: it is.
  absl::Status refusal() const {
    MutexLock lock(&mutex_);
    return refusal_;
  }

 private:
  // Device, inode, size and time of the last change: a file that was replaced differs in one of them.
  using Version = std::tuple<dev_t, ino_t, off_t, time_t, long>;

  WatchedFile(std::string path, Read read, std::string what)
      : path_(std::move(path)), read_(std::move(read)), what_(std::move(what)) {}

  Version LookAt() const {
    struct stat status {};
    if (stat(path_.c_str(), &status) != 0) return {};
    return {status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
  }

  const std::string path_;
  const Read read_;
  const std::string what_;
  mutable Mutex mutex_;
  std::shared_ptr<const Parsed> parsed_ ABSL_GUARDED_BY(mutex_);
  Version version_ ABSL_GUARDED_BY(mutex_);
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::security

#endif  // ADAPTDL_LIBS_SERVICE_SECURITY_WATCHED_FILE_H_
