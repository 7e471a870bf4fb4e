// Collectives between the replicas of a job.
//
// Every member calls the same collectives in the same order. A collective that fails leaves the communicator
// unusable: every later call fails too, and what the buffers hold is unspecified. Codes:
//   UNAVAILABLE        a peer is lost (noticed at once when its connection breaks)
//   DEADLINE_EXCEEDED  a peer did not take part within the communicator's timeout
//   ABORTED            Abort() was called here
//
// Thread-safety: collectives come from one thread at a time; Abort() may be called from any thread.

#ifndef ADAPTDL_LIBS_COMM_COMMUNICATOR_H_
#define ADAPTDL_LIBS_COMM_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace adaptdl::comm {

enum class DataType { kFloat32, kFloat64, kInt64, kUint8 };

// Size of one element in bytes.
int64_t ElementSize(DataType type);

// Contiguous elements that a collective reads and writes. Not owned.
struct Buffer {
  void* data = nullptr;
  int64_t count = 0;
  DataType type = DataType::kFloat32;
  // Index of the GPU that holds the data. Negative: main memory.
  int cuda_device = -1;

  int64_t bytes() const { return count * ElementSize(type); }
};

Buffer BufferOf(absl::Span<float> values);
Buffer BufferOf(absl::Span<double> values);
Buffer BufferOf(absl::Span<int64_t> values);
Buffer BufferOf(absl::Span<uint8_t> values);

// A collective under way.
class Work {
 public:
  virtual ~Work() = default;

  // Blocks until the collective is done; the buffer holds the result when this returns OK. Call it once.
  virtual absl::Status Wait() = 0;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Starts to replace `buffer` by its element-wise sum over all members. The buffer must outlive the Wait()
  // and not be touched before it; a Work that is dropped without Wait() leaves the buffer as it was. Several
  // may be under way at once.
  virtual std::unique_ptr<Work> AllReduceAsync(Buffer buffer) = 0;

  // Replaces `buffer` by that of member `root`.
  virtual absl::Status Broadcast(Buffer buffer, int root) = 0;

  // Returns when all members have called it.
  virtual absl::Status Barrier() = 0;

  // Fails the collectives under way and all later ones with ABORTED and `reason`, and lets the peers notice.
  virtual void Abort(absl::string_view reason) = 0;

  // Element-wise sum over all members, in place.
  absl::Status AllReduce(Buffer buffer);

  // Every member's `value`, in order of rank. Meant for small values.
  absl::StatusOr<std::vector<std::string>> AllGather(absl::string_view value);

  // Replaces `value` by that of member `root`, whatever its size.
  absl::Status BroadcastString(std::string* value, int root);
};

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_COMMUNICATOR_H_
