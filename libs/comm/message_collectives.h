// The collectives of one group over point-to-point messages; blocking, one at a time. Inside libs/comm only.
//
// In front of the data of a collective travels what the sender has begun (number and signature), so that
// members that are out of step notice. Small data is in the same message.

#ifndef ADAPTDL_LIBS_COMM_MESSAGE_COLLECTIVES_H_
#define ADAPTDL_LIBS_COMM_MESSAGE_COLLECTIVES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/comm/communicator.h"
#include "libs/comm/membership.h"
#include "libs/comm/transport.h"

namespace adaptdl::comm {

// Run() comes from one thread at a time, Abort() from any.
class MessageCollectives {
 public:
  // Neither is owned. All connections of `transport` are there before the first Run().
  MessageCollectives(int rank, int size, Transport* transport, Membership* membership);
  ~MessageCollectives();

  absl::Status Run(uint64_t number, absl::Duration timeout, Collective* collective);

  // Ends the wait under way and all later ones.
  void Abort();

 private:
  struct Header {
    uint64_t number = 0;
    Signature signature;
    uint64_t bytes = 0;  // of data in this message or after it
  };

  enum class Direction { kSend, kReceive };

  absl::Status Dispatch(Collective* collective);
  absl::Status ExchangeSmall(const Collective& collective);
  absl::Status GatherAll(Collective* collective);
  absl::Status BroadcastSmall(const Collective& collective);
  absl::Status BroadcastChain(const Collective& collective);
  absl::Status ReduceRing(const Collective& collective);

  void PostFrame(int peer);
  absl::Status SendFrame(int peer, const void* data, uint64_t bytes, bool with_data);
  absl::StatusOr<uint64_t> ReceiveFrame(int peer);
  absl::Status FinishFrames();
  const char* FrameData(int peer) const;

  absl::Status Send(Transport::Region* region, int peer, uint64_t slot, size_t offset, size_t bytes);
  absl::Status Receive(Transport::Region* region, int peer, uint64_t slot, size_t offset, size_t bytes);
  // `bytes`: what is waited for.
  absl::Status Await(Transport::Region* region, int peer, Direction direction, uint64_t bytes = 0);
  void Step(int peer, int step, int steps);
  uint64_t DataSlot(int64_t piece) const;

  const int rank_;
  const int size_;
  Transport* const transport_;
  Membership* const membership_;

  // Of the collective that is being run.
  uint64_t number_ = 0;
  Signature signature_;

  // Frames: one to send from, one to receive into per peer, for which a receive is always posted.
  std::vector<char> frames_;
  std::vector<std::unique_ptr<Transport::Region>> outgoing_;
  std::vector<std::unique_ptr<Transport::Region>> incoming_;
  std::vector<bool> posted_;   // whether the receive is posted
  std::vector<bool> sending_;  // frames that were sent and not yet waited for
  std::vector<char> scratch_;  // what the ring receives before it is added
  std::unique_ptr<Transport::Region> scratch_region_;

  Mutex mutex_;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
  Transport::Region* waiting_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_MESSAGE_COLLECTIVES_H_
