#include "libs/comm/nccl_communicator.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "libs/base/mutex.h"
#include "libs/comm/membership.h"
#include "libs/comm/threads.h"

namespace adaptdl::comm {
namespace {

constexpr absl::Duration kPoll = absl::Microseconds(200);

absl::Status CudaStatus(cudaError_t error, absl::string_view doing) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(doing, ": ", cudaGetErrorString(error)));
}

absl::Status NcclStatus(ncclResult_t result, absl::string_view doing) {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  const std::string text = absl::StrCat(doing, ": ", ncclGetErrorString(result));
  const bool peer = result == ncclRemoteError || result == ncclSystemError;
  return peer ? absl::UnavailableError(text) : absl::InternalError(text);
}

ncclDataType_t NcclType(DataType type, ReduceOp op) {
  switch (type) {
    case DataType::kFloat32:
      return ncclFloat32;
    case DataType::kFloat64:
      return ncclFloat64;
    case DataType::kInt64:
      // "Or" is the maximum of unsigned numbers: it is non-zero where any of them is.
      return op == ReduceOp::kOr ? ncclUint64 : ncclInt64;
    case DataType::kUint8:
      return ncclUint8;
    case DataType::kFloat16:
      return ncclFloat16;
    case DataType::kBFloat16:
      return ncclBfloat16;
  }
  return ncclUint8;
}

// Memory on the GPU that is free again once what is on its stream before has run.
class DeviceMemory {
 public:
  DeviceMemory(int64_t bytes, cudaStream_t stream) : stream_(stream) {
    if (bytes > 0 && cudaMallocAsync(&data_, bytes, stream) != cudaSuccess) data_ = nullptr;
  }
  ~DeviceMemory() {
    if (data_ != nullptr) (void)cudaFreeAsync(data_, stream_);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  char* data() const { return static_cast<char*>(data_); }

 private:
  void* data_ = nullptr;
  const cudaStream_t stream_;
};

// Main memory that the GPU reads and writes while the caller goes on.
class PinnedMemory {
 public:
  explicit PinnedMemory(int64_t bytes) {
    if (bytes > 0 && cudaMallocHost(&data_, bytes) != cudaSuccess) data_ = nullptr;
  }
  ~PinnedMemory() {
    if (data_ != nullptr) (void)cudaFreeHost(data_);
  }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  char* data() const { return static_cast<char*>(data_); }

 private:
  void* data_ = nullptr;
};

absl::Status OutOfMemory() { return absl::ResourceExhaustedError("no memory for what goes over the GPU"); }

// A collective that has been put on the stream.
struct Task {
  ~Task() {
    if (done_event != nullptr) (void)cudaEventDestroy(done_event);
  }

  Collective collective;
  uint64_t number = 0;
  absl::Duration timeout;
  std::unique_ptr<DeviceMemory> staged;  // of a collective over main memory
  std::unique_ptr<PinnedMemory> host;    // what goes there and comes back
  int64_t part_bytes = 0;                // of an all-gather: room per member
  cudaEvent_t done_event = nullptr;
  bool finished = false;
  absl::Status status;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(const ConnectOptions& options, NcclOptions nccl_options)
      : rank_(options.rank),
        size_(options.size),
        options_(std::move(nccl_options)),
        timeout_(options.timeout) {}

  ~NcclCommunicator() override {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
      changed_.SignalAll();
    }
    if (watcher_.joinable()) watcher_.join();
    const bool failed = membership_ != nullptr && !membership_->status().ok();
    membership_.reset();
    if (!failed) (void)cudaStreamSynchronize(stream_);
    EndNccl();
    if (before_ != nullptr) (void)cudaEventDestroy(before_);
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  }

  absl::Status Connect(const ConnectOptions& options, TcpRendezvous::Meeting meeting) {
    ncclUniqueId id;
    if (meeting.parts[0].size() != sizeof(id)) {
      return absl::FailedPreconditionError("rank 0 did not send NCCL's unique id");
    }
    std::memcpy(&id, meeting.parts[0].data(), sizeof(id));
    SignalsBlocked blocked;
    membership_ = std::make_unique<Membership>(options, std::move(meeting), [this] { EndNccl(); });
    absl::Status begun = membership_->Begin(0, FormingSignature(), options.ConnectTimeout());
    if (!begun.ok()) return begun;
    if (absl::Status status = Form(id); !status.ok()) return membership_->Fail(status);
    if (absl::Status status = membership_->End(); !status.ok()) return status;
    watcher_ = std::thread([this] { Watch(); });
    return absl::OkStatus();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void Abort(absl::string_view reason) override {
    (void)membership_->Fail(absl::AbortedError(reason),
                            absl::UnavailableError(absl::StrCat("rank ", rank_, " has aborted: ", reason)));
  }

  void SetTimeout(absl::Duration timeout) override { timeout_ = timeout; }

 private:
  class NcclWork final : public Work {
   public:
    NcclWork(NcclCommunicator* owner, std::shared_ptr<Task> task) : owner_(owner), task_(std::move(task)) {}
    ~NcclWork() override { (void)owner_->AwaitFinished(*task_); }
    absl::Status Wait() override { return owner_->Wait(task_.get()); }

   private:
    NcclCommunicator* const owner_;
    const std::shared_ptr<Task> task_;
  };

  // Without blocking calls, so that a lost member or the deadline can end it.
  absl::Status Form(const ncclUniqueId& id) {
    if (absl::Status status = CudaStatus(cudaSetDevice(options_.cuda_device), "choosing the GPU");
        !status.ok())
      return status;
    absl::Status status =
        CudaStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
    if (!status.ok()) return status;
    status = CudaStatus(cudaEventCreateWithFlags(&before_, cudaEventDisableTiming), "creating an event");
    if (!status.ok()) return status;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    {
      MutexLock lock(&nccl_mutex_);
      status = NcclStatus(ncclCommInitRankConfig(&nccl_, size_, id, rank_, &config), "forming the group");
    }
    if (!status.ok()) return status;
    return AwaitNccl("forming the group");
  }

  // Until NCCL has taken what it was given last.
  absl::Status AwaitNccl(absl::string_view doing) {
    for (;;) {
      {
        MutexLock lock(&nccl_mutex_);
        ncclResult_t state = ncclInProgress;
        // Null: the group has failed, as is about to be known.
        if (nccl_ != nullptr) {
          absl::Status status = NcclStatus(ncclCommGetAsyncError(nccl_, &state), doing);
          if (!status.ok()) return status;
        }
        if (state != ncclInProgress) return NcclStatus(state, doing);
      }
      if (absl::Status status = membership_->AwaitFailure(kPoll); !status.ok()) return status;
    }
  }

  // Ends kernels that wait for others. Also how a group that is at its end is taken down: it frees
  // everything.
  void EndNccl() {
    MutexLock lock(&nccl_mutex_);
    if (nccl_ != nullptr) (void)ncclCommAbort(std::exchange(nccl_, nullptr));
  }

  std::unique_ptr<Work> Start(Collective collective) override {
    auto task = std::make_shared<Task>();
    absl::Status status = membership_->status();
    if (status.ok() && collective.kind == Collective::Kind::kAllGather) {
      const absl::StatusOr<int64_t> part_bytes = AgreeOnPartBytes(collective.value);
      status = part_bytes.status();
      if (part_bytes.ok()) task->part_bytes = *part_bytes;
    }
    task->collective = std::move(collective);
    task->number = next_++;
    task->timeout = timeout_;
    if (status.ok()) status = Enqueue(task.get());
    if (!status.ok()) {
      task->status = membership_->Fail(status);
      task->finished = true;
    } else {
      MutexLock lock(&mutex_);
      tasks_.push_back(task);
      changed_.SignalAll();
    }
    return std::make_unique<NcclWork>(this, std::move(task));
  }

  cudaStream_t CurrentStream() const {
    return options_.current_stream ? static_cast<cudaStream_t>(options_.current_stream()) : nullptr;
  }

  absl::Status Enqueue(Task* task) {
    (void)cudaSetDevice(options_.cuda_device);
    absl::Status status = CudaStatus(cudaEventRecord(before_, CurrentStream()), "recording an event");
    if (!status.ok()) return status;
    status = CudaStatus(cudaStreamWaitEvent(stream_, before_, 0), "waiting for the current stream");
    if (!status.ok()) return status;
    status =
        task->collective.kind == Collective::Kind::kAllGather ? EnqueueGather(task) : EnqueueBuffer(task);
    if (!status.ok()) return status;
    status =
        CudaStatus(cudaEventCreateWithFlags(&task->done_event, cudaEventDisableTiming), "creating an event");
    if (!status.ok()) return status;
    return CudaStatus(cudaEventRecord(task->done_event, stream_), "recording an event");
  }

  // All-reduce, broadcast and, as an all-reduce of one byte, barrier.
  absl::Status EnqueueBuffer(Task* task) {
    const Collective& collective = task->collective;
    const bool barrier = collective.kind == Collective::Kind::kBarrier;
    const Buffer& buffer = collective.buffer;
    const int64_t bytes = barrier ? 1 : buffer.bytes();
    void* data = buffer.data;
    if (buffer.cuda_device < 0) {
      task->staged = std::make_unique<DeviceMemory>(bytes, stream_);
      task->host = std::make_unique<PinnedMemory>(bytes);
      data = task->staged->data();
      if (bytes > 0 && (data == nullptr || task->host->data() == nullptr)) return OutOfMemory();
      if (buffer.bytes() > 0) std::memcpy(task->host->data(), buffer.data, bytes);
      if (absl::Status status = Copy(data, task->host->data(), bytes); !status.ok()) return status;
    }
    const int64_t count = barrier ? 1 : buffer.count;
    const ncclDataType_t type = barrier ? ncclUint8 : NcclType(buffer.type, collective.op);
    const ncclRedOp_t op = collective.op == ReduceOp::kSum ? ncclSum : ncclMax;
    absl::Status status = Launch([&] {
      return collective.kind == Collective::Kind::kBroadcast
                 ? ncclBroadcast(data, data, count, type, collective.root, nccl_, stream_)
                 : ncclAllReduce(data, data, count, type, op, nccl_, stream_);
    });
    if (!status.ok() || buffer.cuda_device >= 0) return status;
    return Copy(task->host->data(), data, bytes);
  }

  // All send as much as the longest part needs.
  absl::Status EnqueueGather(Task* task) {
    const std::string& value = task->collective.value;
    const auto length = static_cast<int64_t>(value.size());
    const int64_t total = task->part_bytes * size_;
    task->staged = std::make_unique<DeviceMemory>(total, stream_);
    task->host = std::make_unique<PinnedMemory>(total);
    char* all = task->staged->data();
    if (all == nullptr || task->host->data() == nullptr) return OutOfMemory();
    char* mine = task->host->data() + task->part_bytes * rank_;
    std::memcpy(mine, &length, sizeof(length));
    std::memcpy(mine + sizeof(length), value.data(), value.size());
    absl::Status status = Copy(all + task->part_bytes * rank_, mine, task->part_bytes);
    if (!status.ok()) return status;
    status = Launch([&] {
      return ncclAllGather(all + task->part_bytes * rank_, all, task->part_bytes, ncclUint8, nccl_, stream_);
    });
    if (!status.ok()) return status;
    return Copy(task->host->data(), all, total);
  }

  // The room that each part of an all-gather takes: its length, and as many bytes as the longest has. A
  // collective of its own, and waited for.
  absl::StatusOr<int64_t> AgreeOnPartBytes(const std::string& value) {
    auto longest = static_cast<int64_t>(value.size());
    const int64_t length_bytes = sizeof(longest);
    if (absl::Status status = AllReduce(BufferOf(absl::Span<int64_t>(&longest, 1)), ReduceOp::kMax);
        !status.ok()) {
      return status;
    }
    return longest + length_bytes;
  }

  template <typename Function>
  absl::Status Launch(Function function) {
    {
      MutexLock lock(&nccl_mutex_);
      if (nccl_ == nullptr) return membership_->status();
      if (absl::Status status = NcclStatus(function(), "starting a collective"); !status.ok()) return status;
    }
    return AwaitNccl("starting a collective");
  }

  absl::Status Copy(void* to, const void* from, int64_t bytes) {
    return CudaStatus(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "copying");
  }

  absl::Status AwaitFinished(const Task& task) {
    MutexLock lock(&mutex_);
    while (!task.finished) changed_.Wait(&mutex_);
    return task.status;
  }

  absl::Status Wait(Task* task) {
    const Collective& collective = task->collective;
    if (collective.buffer.cuda_device >= 0) {
      if (absl::Status status = membership_->status(); !status.ok()) return status;
      return CudaStatus(cudaStreamWaitEvent(CurrentStream(), task->done_event, 0),
                        "waiting for a collective");
    }
    if (absl::Status status = AwaitFinished(*task); !status.ok()) return status;
    if (collective.kind == Collective::Kind::kAllGather) {
      collective.values->clear();
      for (int member = 0; member < size_; ++member) {
        const char* part = task->host->data() + task->part_bytes * member;
        int64_t length = 0;
        std::memcpy(&length, part, sizeof(length));
        collective.values->emplace_back(part + sizeof(length), length);
      }
    } else if (collective.buffer.bytes() > 0) {
      std::memcpy(collective.buffer.data, task->host->data(), collective.buffer.bytes());
    }
    return absl::OkStatus();
  }

  // Follows the oldest collective under way, which is the one whose time runs.
  void Watch() {
    (void)cudaSetDevice(options_.cuda_device);
    for (;;) {
      std::shared_ptr<Task> task;
      {
        MutexLock lock(&mutex_);
        while (tasks_.empty() && !stopping_) changed_.Wait(&mutex_);
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      absl::Status status = Follow(*task);
      MutexLock lock(&mutex_);
      task->status = std::move(status);
      task->finished = true;
      changed_.SignalAll();
    }
  }

  absl::Status Follow(const Task& task) {
    absl::Status status = membership_->Begin(task.number, SignatureOf(task.collective), task.timeout);
    while (status.ok()) {
      const cudaError_t state = cudaEventQuery(task.done_event);
      if (state == cudaSuccess) return membership_->End();
      if (state != cudaErrorNotReady) return membership_->Fail(CudaStatus(state, "running a collective"));
      if (status = NcclState(); !status.ok()) return membership_->Fail(status);
      status = membership_->AwaitFailure(kPoll);
    }
    return status;
  }

  absl::Status NcclState() {
    MutexLock lock(&nccl_mutex_);
    ncclResult_t state = ncclSuccess;
    if (nccl_ == nullptr) return absl::OkStatus();
    if (absl::Status status = NcclStatus(ncclCommGetAsyncError(nccl_, &state), "NCCL"); !status.ok())
      return status;
    return NcclStatus(state, "NCCL");
  }

  const int rank_;
  const int size_;
  const NcclOptions options_;
  absl::Duration timeout_;  // of the thread that starts collectives
  cudaStream_t stream_ = nullptr;
  cudaEvent_t before_ = nullptr;  // what was on the current stream before a collective
  Mutex nccl_mutex_;
  ncclComm_t nccl_ ABSL_GUARDED_BY(nccl_mutex_) = nullptr;
  std::unique_ptr<Membership> membership_;
  uint64_t next_ = 1;  // number 0 is the forming of the group

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<Task>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread watcher_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> ConnectNccl(TcpRendezvous& rendezvous,
                                                          const ConnectOptions& options,
                                                          const NcclOptions& nccl_options) {
  int devices = 0;
  const cudaError_t counted = cudaGetDeviceCount(&devices);
  if (counted != cudaSuccess || nccl_options.cuda_device < 0 || nccl_options.cuda_device >= devices) {
    return absl::FailedPreconditionError(
        absl::StrCat("no GPU ", nccl_options.cuda_device, ": this machine shows ", devices,
                     counted == cudaSuccess ? "" : absl::StrCat(" (", cudaGetErrorString(counted), ")")));
  }
  std::string part;
  if (options.rank == 0) {
    ncclUniqueId id;
    if (absl::Status status = NcclStatus(ncclGetUniqueId(&id), "making a unique id"); !status.ok())
      return status;
    part.assign(reinterpret_cast<const char*>(&id), sizeof(id));
  }
  absl::StatusOr<TcpRendezvous::Meeting> meeting = rendezvous.Meet(options, part);
  if (!meeting.ok()) return meeting.status();
  auto communicator = std::make_unique<NcclCommunicator>(options, nccl_options);
  if (absl::Status status = communicator->Connect(options, *std::move(meeting)); !status.ok()) return status;
  return communicator;
}

}  // namespace adaptdl::comm
