// All open streams of the server, so that a shutdown can end them at once, and a caller whose token was
// revoked keeps none. Held weakly. Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_CALLS_STREAMS_H_
#define ADAPTDL_SERVICES_SUPERVISOR_CALLS_STREAMS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/support/status.h"
#include "libs/base/mutex.h"
#include "libs/service/strangers.h"

namespace adaptdl::supervisor {

class EndableStream : public std::enable_shared_from_this<EndableStream> {
 public:
  virtual ~EndableStream() = default;
  virtual void End(const grpc::Status& status) = 0;
  // Ends the stream if a message has been on its way to the reader for longer than `patience`. Called now and
  // then.
  virtual void CheckReader(absl::Time /*now*/, absl::Duration /*patience*/) {}
};

// Until the stream leaves, it is one of `strangers`, who end it.
void EnterAsStranger(service::Strangers* strangers, const std::string& host, EndableStream* stream);

class Streams {
 public:
  // `allowed`: what EndDisallowed() asks. Empty: the stream may go on.
  void Add(const std::shared_ptr<EndableStream>& stream, std::function<absl::Status()> allowed = nullptr);
  // Ends the streams that are no longer allowed, with the reason. May wait for who says so; where nobody can say it
  // now, the stream goes on.
  void EndDisallowed();
  // Ends all streams, and each that is added later.
  void EndAll(const grpc::Status& status);
  // CheckReader() of all, a few times per `patience`.
  void CheckReaders(absl::Time now, absl::Duration patience);

 private:
  struct Entry {
    std::weak_ptr<EndableStream> stream;
    std::function<absl::Status()> allowed;
  };

  Mutex mutex_;
  std::vector<Entry> streams_ ABSL_GUARDED_BY(mutex_);
  // Streams are swept when there are so many entries.
  size_t sweep_at_ ABSL_GUARDED_BY(mutex_) = 64;
  absl::Time next_check_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status end_status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_CALLS_STREAMS_H_
