// Writes files that come over the network into one folder, and never outside of it: names with ".." and
// links that lead away are refused, and each file appears under its name when it is whole.
//
// Thread-safety: one thread at a time.

#ifndef ADAPTDL_CLI_FILE_SINK_H_
#define ADAPTDL_CLI_FILE_SINK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl::cli {

class FileSink {
 public:
  // `root` must be a folder that exists.
  static absl::StatusOr<std::unique_ptr<FileSink>> Create(const std::string& root);
  ~FileSink();

  // Makes the folder `path`, relative to the root, and those above it; "" is the root itself.
  absl::Status MakeFolder(absl::string_view path);

  // Takes the next piece of a file. Files come one after the other, each from its beginning; `size` is that
  // of the whole file. INVALID_ARGUMENT: the path leads out, or pieces do not follow each other. DATA_LOSS:
  // the file before was not whole.
  absl::Status Write(absl::string_view path, uint32_t mode, int64_t size, int64_t offset,
                     absl::string_view data);

  // Call it after the last piece. DATA_LOSS: the last file is not whole.
  absl::Status Finish();

  int files() const { return files_; }
  int64_t bytes() const { return bytes_; }

 private:
  FileSink(std::string root, int root_fd) : root_(std::move(root)), root_fd_(root_fd) {}

  // Opens the folder that holds `path`, and gives the path's last component.
  absl::StatusOr<int> OpenParent(absl::string_view path, std::string* name);
  absl::Status Begin(absl::string_view path, uint32_t mode, int64_t size);
  absl::Status Commit();
  void Discard();

  const std::string root_;
  const int root_fd_;
  int files_ = 0;
  int64_t bytes_ = 0;

  // The file being written; fd_ is -1 while there is none.
  std::string path_;
  std::string name_;
  std::string temporary_;
  int parent_fd_ = -1;
  int fd_ = -1;
  int64_t size_ = 0;
  int64_t written_ = 0;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_FILE_SINK_H_
