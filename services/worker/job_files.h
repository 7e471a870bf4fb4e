// Reads files of a job's share or checkpoint folder, piece by piece, and never anything outside it: "..",
// absolute paths and symbolic links that lead out are refused by the kernel (openat2) or, where that is not
// to be had, every symbolic link is.
//
// Not thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_JOB_FILES_H_
#define ADAPTDL_SERVICES_WORKER_JOB_FILES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adaptdl/v1/job_service.pb.h"
#include "adaptdl/v1/log_service.pb.h"

namespace adaptdl::worker {

// Largest piece of a file, in bytes.
inline constexpr int kMaxChunkBytes = 256 << 10;

class JobFileReader {
 public:
  // `storage_folder` is trusted, the request is not. INVALID_ARGUMENT: names or path; NOT_FOUND: no such job
  // or file.
  static absl::StatusOr<std::unique_ptr<JobFileReader>> Open(const std::string& storage_folder,
                                                             const v1::ReadJobFilesRequest& request);
  ~JobFileReader();
  JobFileReader(const JobFileReader&) = delete;
  JobFileReader& operator=(const JobFileReader&) = delete;

  // The next piece; absent at the end. Folders come before what is in them, in order of their names; what is
  // neither file nor folder, and symbolic links to folders, are left out.
  absl::StatusOr<std::optional<v1::FileChunk>> Next();

 private:
  JobFileReader(int root_fd, std::string path, bool required)
      : root_fd_(root_fd), waiting_{{std::move(path), required}} {}

  struct Waiting {
    std::string path;  // relative to the root; empty: the root itself
    // Whether it was asked for by name: then it must be there, and links to folders are followed.
    bool required;
  };

  absl::StatusOr<std::optional<v1::FileChunk>> OpenNext(const Waiting& next);
  absl::StatusOr<v1::FileChunk> ReadChunk();
  absl::Status AddChildren(int folder_fd, const std::string& path);

  const int root_fd_;
  std::vector<Waiting> waiting_;  // the next is the last
  // The file being read. -1: none.
  int file_fd_ = -1;
  v1::FileChunk file_;  // its path, mode and size; offset is where to read on
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_JOB_FILES_H_
