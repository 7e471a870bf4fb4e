// Copies of files that only grow, as TensorBoard reads them: what is new of a file is appended to its copy, which a
// reader may have open.
//
// The copies are in a temporary folder of the mirror's own, which goes with it. Names come over the network: those that lead out of the folder
// are refused.
//
// Thread-safety: one thread at a time.

#ifndef ADAPTDL_CLI_TENSORBOARD_EVENT_MIRROR_H_
#define ADAPTDL_CLI_TENSORBOARD_EVENT_MIRROR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace adaptdl::cli {

class EventMirror {
 public:
  // `max_bytes`: of all copies together.
  static absl::StatusOr<std::unique_ptr<EventMirror>> Create(int64_t max_bytes);
  // Removes the folder.
  ~EventMirror();
  EventMirror(const EventMirror&) = delete;
  EventMirror& operator=(const EventMirror&) = delete;

  const std::string& folder() const { return folder_; }
  int64_t bytes() const { return bytes_; }

  // A piece of a file of `job`, at `offset`; pieces of a file come in order, each time from its beginning. A file that is
  // shorter than its copy is another one, and takes its place. INVALID_ARGUMENT: the path leads out, or a piece is missing.
  // RESOURCE_EXHAUSTED: the copies are as large as they may be.
  absl::Status Take(absl::string_view job, absl::string_view path, int64_t size, int64_t offset,
                    absl::string_view data);

 private:
  EventMirror(std::string folder, int64_t max_bytes) : folder_(std::move(folder)), max_bytes_(max_bytes) {}

  absl::Status Begin(const std::string& path, int64_t size);

  const std::string folder_;
  const int64_t max_bytes_;
  int64_t bytes_ = 0;
  // How much of each file is here, by its path in the folder.
  std::map<std::string, int64_t> sizes_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_TENSORBOARD_EVENT_MIRROR_H_
