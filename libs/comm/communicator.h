// Collectives between the replicas of a job.
//
//   std::vector<double> sums = {loss, count};
//   absl::Status status = communicator.AllReduce(BufferOf(absl::MakeSpan(sums)));
//
// Every member starts the same collectives in the same order. A collective that fails leaves the communicator
// unusable: every later one fails with the same status, and what the buffers hold is unspecified. No wait is
// longer than the communicator's timeout at the collective's start. The messages name the collective, its
// number, how far it had come and the members that are to blame, and are the same on every survivor. Codes:
//   UNAVAILABLE          a member is lost, has left or has aborted (noticed at once)
//   DEADLINE_EXCEEDED    a member did not take part within the communicator's timeout
//   FAILED_PRECONDITION  members started different collectives
//   ABORTED              Abort() was called here
//   INVALID_ARGUMENT     a collective that can't be; nothing was started, and the communicator still works
//
// Thread-safety: collectives and SetTimeout() come from one thread at a time; Abort() may be called from any
// thread.

#ifndef ADAPTDL_LIBS_COMM_COMMUNICATOR_H_
#define ADAPTDL_LIBS_COMM_COMMUNICATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libs/device/data_type.h"
#include "libs/device/device.h"

namespace adaptdl::comm {

using device::DataType;
using device::ElementSize;

// kOr is for integers: an element of the result is non-zero where that of any member is.
enum class ReduceOp : uint8_t { kSum, kMax, kOr };

// Contiguous elements that a collective reads and writes. Not owned.
struct Buffer {
  void* data = nullptr;
  int64_t count = 0;
  DataType type = DataType::kFloat32;
  // What holds the data. Null: main memory. The collective comes after what is on `stream` when it is started.
  // Only that of the communicator.
  device::Device* device = nullptr;
  device::Stream stream = nullptr;

  int64_t bytes() const { return count * ElementSize(type); }
};

Buffer BufferOf(absl::Span<float> values);
Buffer BufferOf(absl::Span<double> values);
Buffer BufferOf(absl::Span<int64_t> values);
Buffer BufferOf(absl::Span<uint8_t> values);

// A collective under way. Must not outlive its communicator.
class Work {
 public:
  // Blocks until the collective has let go of its buffer.
  virtual ~Work() = default;

  // Blocks until the collective is done; the buffer holds the result when this returns OK. Call it once.
  virtual absl::Status Wait() = 0;

  // For a buffer that a device holds: what is put on `stream` from now on comes after the collective. The caller
  // goes on as far as it can. Call it once at most, and Wait() when that stream is known to have come so far:
  // it then blocks for nothing, and says whether the result is there.
  virtual absl::Status Then(device::Stream stream);
};

// Joins two values into one. Must be associative, and give the same on every member; is called in order of
// rank.
using Combine = std::function<std::string(std::string left, const std::string& right)>;

// A reduction of serialised values under way.
class Reduction {
 public:
  Reduction(std::unique_ptr<std::vector<std::string>> values, std::unique_ptr<Work> work, Combine combine);

  // As Work::Wait(); the result on success.
  absl::StatusOr<std::string> Wait();

 private:
  std::unique_ptr<std::vector<std::string>> values_;  // outlives work_, which writes into it
  std::unique_ptr<Work> work_;
  Combine combine_;
};

// What one member asks for.
struct Collective {
  enum class Kind : uint8_t { kAllReduce, kBroadcast, kAllGather, kBarrier };

  Kind kind = Kind::kBarrier;
  ReduceOp op = ReduceOp::kSum;                // of an all-reduce
  int root = 0;                                // of a broadcast
  Buffer buffer;                               // of an all-reduce or broadcast
  std::string value;                           // of an all-gather: this member's part
  std::vector<std::string>* values = nullptr;  // of an all-gather: the result
};

// How far a member is in the collectives of its group, and whom it waits for.
struct Standing {
  // Number of the collective that is under way, or of the next one.
  uint64_t collective = 0;
  // How much of it is done, in steps that are the same on all members.
  int step = 0;
  // Rank of the member that it exchanges data with. Negative: none at this moment.
  int peer = -1;
  // How long none of this has moved; zero also where that can't be seen, in an exchange of one large value.
  absl::Duration stalled;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // The device on which buffers of all-reduces and broadcasts may lie, too. Null: none. Not owned.
  virtual device::Device* device() const { return nullptr; }

  // Fails the collectives under way and all later ones with ABORTED and `reason`, and lets the peers notice.
  virtual void Abort(absl::string_view reason) = 0;

  // The longest that any single collective started from now on may take; those under way keep theirs. The
  // members need not agree: the first whose time is up ends the group.
  virtual void SetTimeout(absl::Duration timeout) = 0;

  // May be called from any thread. Nothing: this implementation can't tell, or the group has failed.
  virtual std::optional<Standing> standing() { return std::nullopt; }

  // Starts to replace `buffer` by its element-wise reduction over all members. The buffer must not be touched
  // before the Work has been waited for or destroyed. Several may be under way at once.
  std::unique_ptr<Work> AllReduceAsync(Buffer buffer, ReduceOp op = ReduceOp::kSum);
  absl::Status AllReduce(Buffer buffer, ReduceOp op = ReduceOp::kSum);

  // Replaces `buffer` by that of member `root`, whose own is only read.
  std::unique_ptr<Work> BroadcastAsync(Buffer buffer, int root);
  absl::Status Broadcast(Buffer buffer, int root);

  // Every member's `value`, in order of rank. Meant for small values; they may differ in length. `values`
  // must outlive the Work.
  std::unique_ptr<Work> AllGatherAsync(std::string value, std::vector<std::string>* values);
  absl::StatusOr<std::vector<std::string>> AllGather(absl::string_view value);

  // All members' values, joined from rank 0 upwards. Every member computes the same.
  std::unique_ptr<Reduction> ReduceAsync(std::string value, Combine combine);
  absl::StatusOr<std::string> Reduce(std::string value, Combine combine);

  // Returns when all members have called it.
  absl::Status Barrier();

  // Replaces `value` by that of member `root`, whatever its size.
  absl::Status BroadcastString(std::string* value, int root);

 protected:
  // For communicators that hand on to another one. `collective` has been checked.
  static std::unique_ptr<Work> StartOn(Communicator& other, Collective collective);
  static absl::Status RunOn(Communicator& other, Collective collective);

  // A collective that was refused before it began.
  static std::unique_ptr<Work> Refused(absl::Status status);

 private:
  // `collective` has been checked. What can't be started is reported by the Work.
  virtual std::unique_ptr<Work> Start(Collective collective) = 0;

  // Starts and waits; overridden where that can be done faster in one go.
  virtual absl::Status Run(Collective collective) { return Start(std::move(collective))->Wait(); }

  absl::Status Check(const Collective& collective) const;
};

// Replaces `count` elements at `to` by op(to, from).
void ReduceInto(ReduceOp op, DataType type, void* to, const void* from, int64_t count);

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_COMMUNICATOR_H_
