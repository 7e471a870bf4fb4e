// One who uses a supervisor that dies all the time, and knows what it must still know afterwards.

#ifndef ADAPTDL_TESTS_INTEGRATION_STORE_CRASH_PARTICIPANT_H_
#define ADAPTDL_TESTS_INTEGRATION_STORE_CRASH_PARTICIPANT_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "grpcpp/channel.h"

namespace adaptdl::integration {

// Thread-safety: one thread at a time.
class Participant {
 public:
  virtual ~Participant() = default;

  // Speaks to a supervisor that was started anew.
  virtual void Connect(const std::shared_ptr<grpc::Channel>& channel) = 0;

  // Does something, or repeats what has had no answer. UNAVAILABLE: the supervisor is gone, or its disk
  // fails. FAILED_PRECONDITION: it refused, or did, what it should not have.
  virtual absl::Status Operate() = 0;

  // Compares what the supervisor has with what it acknowledged. FAILED_PRECONDITION tells the difference.
  virtual absl::Status Check() = 0;

  virtual int64_t acknowledged() const = 0;
};

}  // namespace adaptdl::integration

#endif  // ADAPTDL_TESTS_INTEGRATION_STORE_CRASH_PARTICIPANT_H_
