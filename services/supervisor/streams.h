// All open streams of the server, so that a shutdown can end them at once, and a caller whose token was
// revoked keeps none. Held weakly. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STREAMS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STREAMS_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"
#include "libs/base/mutex.h"

namespace adaptdl::supervisor {

class EndableStream : public std::enable_shared_from_this<EndableStream> {
 public:
  virtual ~EndableStream() = default;
  virtual void End(const grpc::Status& status) = 0;
};

class Streams {
 public:
  // `allowed`: what EndDisallowed() asks. Empty: the stream may go on.
  void Add(const std::shared_ptr<EndableStream>& stream, std::function<absl::Status()> allowed = nullptr);
  // Ends the streams that are no longer allowed, with the reason.
  void EndDisallowed();
  // Ends all streams, and each that is added later.
  void EndAll(const grpc::Status& status);

 private:
  struct Entry {
    std::weak_ptr<EndableStream> stream;
    std::function<absl::Status()> allowed;
  };

  Mutex mutex_;
  std::vector<Entry> streams_ ABSL_GUARDED_BY(mutex_);
  // Streams are swept when there are so many entries.
  size_t sweep_at_ ABSL_GUARDED_BY(mutex_) = 64;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status end_status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STREAMS_H_
