// A stream of messages from elsewhere, read one message ahead and no more: the next one is fetched when the last was
// taken. Whoever makes one is given a function to call when its state has changed, with no lock held, until Abandon().
//
// Thread-safety: implementations are thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_LOGS_STREAM_READER_H_
#define ADAPTDL_SERVICES_SUPERVISOR_LOGS_STREAM_READER_H_

#include "grpcpp/support/status.h"

namespace adaptdl::supervisor {

enum class ReaderState { kWaiting, kReady, kDone };

template <typename Response>
class StreamReader {
 public:
  using State = ReaderState;

  virtual ~StreamReader() = default;

  virtual State state() const = 0;
  // In State::kDone.
  virtual grpc::Status status() const = 0;
  // In State::kReady.
  virtual Response Take() = 0;
  // Nobody will ask any more.
  virtual void Abandon() = 0;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_LOGS_STREAM_READER_H_
