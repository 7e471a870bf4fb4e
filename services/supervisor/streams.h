// All open streams of the server, so that a shutdown can end them at once. Held weakly. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STREAMS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STREAMS_H_

#include <memory>
#include <vector>

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
  void Add(const std::shared_ptr<EndableStream>& stream);
  // Ends all streams, and each that is added later.
  void EndAll(const grpc::Status& status);

 private:
  Mutex mutex_;
  std::vector<std::weak_ptr<EndableStream>> streams_ ABSL_GUARDED_BY(mutex_);
  // Streams are swept when there are so many entries.
  size_t sweep_at_ ABSL_GUARDED_BY(mutex_) = 64;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status end_status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STREAMS_H_
