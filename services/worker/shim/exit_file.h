// exit.json, written even when the disk is full: its space is reserved while there still is some.
//
// Not thread-safe.

#ifndef ADAPTDL_SERVICES_WORKER_SHIM_EXIT_FILE_H_
#define ADAPTDL_SERVICES_WORKER_SHIM_EXIT_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "services/worker/shim/records.h"

namespace adaptdl::worker {

class ExitFile {
 public:
  // Reserves space in `folder`, as far as there is any.
  explicit ExitFile(const std::string& folder);
  ~ExitFile();
  ExitFile(const ExitFile&) = delete;
  ExitFile& operator=(const ExitFile&) = delete;

  // Writes <folder>/exit.json: after a crash it is there as a whole, or not at all. To be called once.
  absl::Status Write(const ExitRecord& record);

 private:
  const std::string folder_;
  const std::string reserved_path_;
  int fd_ = -1;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_SHIM_EXIT_FILE_H_
