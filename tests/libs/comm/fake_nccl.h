// NCCL for tests: its members are threads of one process, each with a guarded device, and its collectives run on
// the streams of these, where they wait for the others as NCCL's kernels do.
//
//   FakeNccl nccl;
//   ConnectNccl(rendezvous, options, device, {nccl.LibraryFor(&device)});
//
// Thread-safe.

#ifndef ADAPTDL_TESTS_LIBS_COMM_FAKE_NCCL_H_
#define ADAPTDL_TESTS_LIBS_COMM_FAKE_NCCL_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "libs/base/mutex.h"
#include "libs/comm/communicator.h"
#include "libs/comm/nccl_library.h"
#include "libs/device/guarded_device.h"

namespace adaptdl::comm {

class FakeNccl {
 public:
  struct Counts {
    int formed = 0;
    int finalized = 0;
    int destroyed = 0;
    int aborted = 0;
    int collectives = 0;
  };
  Counts counts() {
    MutexLock lock(&mutex_);
    return counts_;
  }

  // From now on every member's is asked for this, and does nothing more.
  void Fail(nccl::Result result) {
    MutexLock lock(&mutex_);
    failure_ = result;
    changed_.SignalAll();
  }

  NcclLibrary LibraryFor(device::GuardedDevice* device, int version = 22700) {
    NcclLibrary library;
    library.version = version;
    library.get_unique_id = [this](nccl::UniqueId* id) {
      MutexLock lock(&mutex_);
      std::memcpy(id->bytes.data(), &++ids_, sizeof(ids_));
      return nccl::Result::kSuccess;
    };
    library.comm_init_rank_config = [this, device](nccl::Comm* comm, int size, const nccl::UniqueId& id,
                                                   int rank, nccl::Config* config) {
      return Init(device, comm, size, id, rank, *config);
    };
    library.comm_get_async_error = [this](nccl::Comm comm, nccl::Result* state) {
      MutexLock lock(&mutex_);
      *state = failure_ != nccl::Result::kSuccess          ? failure_
               : Of(comm)->group->arrived < Of(comm)->size ? nccl::Result::kInProgress
                                                           : nccl::Result::kSuccess;
      return nccl::Result::kSuccess;
    };
    library.comm_finalize = [this](nccl::Comm /*comm*/) {
      MutexLock lock(&mutex_);
      ++counts_.finalized;
      return nccl::Result::kSuccess;
    };
    library.comm_destroy = [this](nccl::Comm comm) { return End(comm, &Counts::destroyed); };
    library.comm_abort = [this](nccl::Comm comm) { return End(comm, &Counts::aborted); };
    library.all_reduce = [this](const void* from, void* to, size_t count, nccl::DataType type, nccl::Op op,
                                nccl::Comm comm, device::Stream stream) {
      return Launch(comm, from, to, BytesOf(type) * count, stream,
                    [=](std::vector<std::vector<char>>& parts) {
                      for (size_t rank = 1; rank < parts.size(); ++rank) {
                        ReduceInto(op == nccl::Op::kSum ? ReduceOp::kSum : ReduceOp::kMax, TypeOf(type),
                                   parts[0].data(), parts[rank].data(), static_cast<int64_t>(count));
                      }
                      return size_t{0};
                    });
    };
    library.broadcast = [this](const void* from, void* to, size_t count, nccl::DataType type, int root,
                               nccl::Comm comm, device::Stream stream) {
      return Launch(comm, from, to, BytesOf(type) * count, stream,
                    [root](std::vector<std::vector<char>>&) { return static_cast<size_t>(root); });
    };
    library.get_error_string = [](nccl::Result) { return "as the test wants it"; };
    return library;
  }

 private:
  // What the members of a group put together, by number.
  struct Shared {
    std::vector<std::vector<char>> parts;
    int here = 0;
    int taken = 0;
    bool done = false;
    size_t result = 0;
  };
  struct Group {
    int arrived = 0;
    std::map<uint64_t, Shared> shared;
  };
  struct Member {
    device::GuardedDevice* device = nullptr;
    Group* group = nullptr;
    int size = 0;
    int rank = 0;
    uint64_t next = 0;
    bool aborted = false;
  };
  using Combine = std::function<size_t(std::vector<std::vector<char>>& parts)>;

  static size_t BytesOf(nccl::DataType type) { return static_cast<size_t>(ElementSize(TypeOf(type))); }
  static DataType TypeOf(nccl::DataType type) {
    switch (type) {
      case nccl::DataType::kFloat16:
        return DataType::kFloat16;
      case nccl::DataType::kBfloat16:
        return DataType::kBFloat16;
      case nccl::DataType::kFloat32:
        return DataType::kFloat32;
      case nccl::DataType::kFloat64:
        return DataType::kFloat64;
      case nccl::DataType::kInt64:
      case nccl::DataType::kUint64:
        return DataType::kInt64;
      case nccl::DataType::kUint8:
        return DataType::kUint8;
    }
    return DataType::kUint8;
  }
  static Member* Of(nccl::Comm comm) { return reinterpret_cast<Member*>(comm); }

  nccl::Result Init(device::GuardedDevice* device, nccl::Comm* comm, int size, const nccl::UniqueId& id,
                    int rank, const nccl::Config& config) {
    MutexLock lock(&mutex_);
    if (config.blocking != 0) return nccl::Result::kInvalidUsage;
    int64_t number = 0;
    std::memcpy(&number, id.bytes.data(), sizeof(number));
    Group& group = groups_[number];
    ++group.arrived;
    ++counts_.formed;
    members_.push_back(std::make_unique<Member>(Member{device, &group, size, rank}));
    *comm = reinterpret_cast<nccl::Comm>(members_.back().get());
    changed_.SignalAll();
    return nccl::Result::kInProgress;
  }

  nccl::Result End(nccl::Comm comm, int Counts::*count) {
    MutexLock lock(&mutex_);
    ++(counts_.*count);
    Of(comm)->aborted = true;
    changed_.SignalAll();
    return nccl::Result::kSuccess;
  }

  nccl::Result Launch(nccl::Comm comm, const void* from, void* to, size_t bytes, device::Stream stream,
                      Combine combine) {
    Member* const member = Of(comm);
    uint64_t number = 0;
    {
      MutexLock lock(&mutex_);
      ++counts_.collectives;
      number = member->next++;
    }
    member->device->Enqueue(stream, [this, member, number, from, to, bytes, combine = std::move(combine)] {
      Run(member, number, from, to, bytes, combine);
    });
    return nccl::Result::kSuccess;
  }

  // On the device's stream.
  void Run(Member* member, uint64_t number, const void* from, void* to, size_t bytes,
           const Combine& combine) {
    const char* const mine = static_cast<const char*>(member->device->Translate(const_cast<void*>(from)));
    MutexLock lock(&mutex_);
    Shared& shared = member->group->shared[number];
    shared.parts.resize(static_cast<size_t>(member->size));
    shared.parts[static_cast<size_t>(member->rank)].assign(mine, mine + bytes);
    if (++shared.here == member->size) {
      shared.result = combine(shared.parts);
      shared.done = true;
      changed_.SignalAll();
    }
    while (!shared.done && !member->aborted) changed_.Wait(&mutex_);
    if (shared.done) std::memcpy(member->device->Translate(to), shared.parts[shared.result].data(), bytes);
  }

  Mutex mutex_;
  CondVar changed_;
  int64_t ids_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int64_t, Group> groups_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Member>> members_ ABSL_GUARDED_BY(mutex_);
  nccl::Result failure_ ABSL_GUARDED_BY(mutex_) = nccl::Result::kSuccess;
  Counts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::comm

#endif  // ADAPTDL_TESTS_LIBS_COMM_FAKE_NCCL_H_
