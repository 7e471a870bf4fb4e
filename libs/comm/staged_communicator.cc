#include "libs/comm/staged_communicator.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/comm/threads.h"

namespace adaptdl::comm {
namespace {

// Pinned main memory, and when the device has read the last of it.
struct Staging {
  device::Memory memory;
  // The device's copy into it, and out of it.
  std::unique_ptr<device::Event> filled;
  std::unique_ptr<device::Event> emptied;
};

// A collective that waits for its turn, or is being run, and where its outcome will be.
struct Task {
  Collective collective;
  std::optional<absl::Duration> timeout;
  // Of one over a buffer on the device.
  std::unique_ptr<Staging> staging;
  // The exchange is over, and what came of it is on its way to the device.
  bool done = false;
  absl::Status status;
};

}  // namespace

class StagedCommunicator::Impl {
 public:
  Impl(std::unique_ptr<Communicator> inner, device::Device* device)
      : inner_(std::move(inner)), device_(device) {}

  // Before the works' last use of this: what waits will not be run.
  void Stop() {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
      changed_.SignalAll();
    }
    if (thread_.joinable()) thread_.join();
    MutexLock lock(&mutex_);
    while (!waiting_.empty()) {
      Finish(waiting_.front().get(),
             absl::AbortedError("the communicator was destroyed before this collective began"));
      waiting_.pop_front();
    }
    // What it says to the others.
    inner_.reset();
  }

  Communicator& inner() { return *inner_; }
  device::Device* device() const { return device_; }
  void SetTimeout(absl::Duration timeout) { timeout_ = timeout; }

  // To the inner communicator: it needs no staging, and nothing is before it.
  bool GoesStraight(const Collective& collective) {
    if (collective.buffer.device != nullptr || !Idle()) return false;
    ApplyTimeout(timeout_);
    return true;
  }

  std::shared_ptr<Task> Enqueue(Collective collective) {
    auto task = std::make_shared<Task>();
    task->collective = std::move(collective);
    task->timeout = timeout_;
    absl::Status status = task->collective.buffer.device == nullptr ? absl::OkStatus() : Stage(task.get());
    if (!thread_.joinable()) StartThread();
    MutexLock lock(&mutex_);
    if (!status.ok()) {
      inner_->Abort(status.message());
      Finish(task.get(), status);
      return task;
    }
    waiting_.push_back(task);
    changed_.SignalAll();
    return task;
  }

  absl::Status AwaitExchange(Task* task) {
    MutexLock lock(&mutex_);
    while (!task->done) changed_.Wait(&mutex_);
    return task->status;
  }

  absl::Status Then(Task* task, device::Stream stream) {
    if (absl::Status status = AwaitExchange(task); !status.ok()) return status;
    return device_->WaitFor(*task->staging->emptied, stream);
  }

  absl::Status Wait(Task* task) {
    absl::Status status = AwaitExchange(task);
    if (!status.ok() || task->staging == nullptr) return status;
    const absl::StatusOr<bool> done = device_->IsDone(*task->staging->emptied);
    if (!done.ok()) return done.status();
    return *done ? absl::OkStatus() : device_->Await(*task->staging->emptied);
  }

  // The collective has let go of its buffer, or does so here.
  void Release(Task* task) {
    (void)Wait(task);
    if (task->staging == nullptr) return;
    MutexLock lock(&mutex_);
    free_.push_back(std::move(task->staging));
  }

  int64_t pieces() {
    MutexLock lock(&mutex_);
    return pieces_;
  }

 private:
  bool Idle() {
    MutexLock lock(&mutex_);
    return waiting_.empty() && !running_;
  }

  void ApplyTimeout(std::optional<absl::Duration> timeout) {
    if (timeout) inner_->SetTimeout(*timeout);
  }

  void StartThread() {
    SignalsBlocked blocked;
    thread_ = std::thread([this] { RunTasks(); });
  }

  // --- Staging, on the thread that starts collectives ---

  absl::Status Prepare() {
    if (out_ != nullptr) return absl::OkStatus();
    for (std::unique_ptr<device::OwnedStream>* stream : {&out_, &back_}) {
      absl::StatusOr<std::unique_ptr<device::OwnedStream>> made = device_->CreateStream();
      if (!made.ok()) return made.status();
      *stream = *std::move(made);
    }
    return MakeEvent(&ready_);
  }

  absl::Status MakeEvent(std::unique_ptr<device::Event>* event) {
    absl::StatusOr<std::unique_ptr<device::Event>> made = device_->CreateEvent(/*timed=*/false);
    if (made.ok()) *event = *std::move(made);
    return made.status();
  }

  absl::StatusOr<std::unique_ptr<Staging>> TakeStaging(int64_t bytes) {
    {
      MutexLock lock(&mutex_);
      const auto fits = std::find_if(free_.begin(), free_.end(),
                                     [&](const auto& staging) { return staging->memory.bytes() >= bytes; });
      if (fits != free_.end()) {
        std::unique_ptr<Staging> staging = std::move(*fits);
        free_.erase(fits);
        return staging;
      }
      // Those of a model have the same sizes in each step.
      if (!free_.empty()) {
        free_.erase(free_.begin());
        --pieces_;
      }
      ++pieces_;
    }
    auto staging = std::make_unique<Staging>();
    absl::StatusOr<device::Memory> memory = device_->AllocateHost(std::max<int64_t>(bytes, 1));
    if (!memory.ok()) return memory.status();
    staging->memory = *std::move(memory);
    if (absl::Status status = MakeEvent(&staging->filled); !status.ok()) return status;
    if (absl::Status status = MakeEvent(&staging->emptied); !status.ok()) return status;
    return staging;
  }

  // Puts on its way what this member gives.
  absl::Status Stage(Task* task) {
    const Buffer& buffer = task->collective.buffer;
    if (absl::Status status = Prepare(); !status.ok()) return status;
    absl::StatusOr<std::unique_ptr<Staging>> staging = TakeStaging(buffer.bytes());
    if (!staging.ok()) return staging.status();
    task->staging = *std::move(staging);
    // Also where nothing is given: what is received must not come before what the caller does to the buffer.
    absl::Status status = device_->Record(*ready_, buffer.stream);
    if (status.ok()) status = device_->WaitFor(*ready_, out_->get());
    if (status.ok() && Gives(task->collective)) {
      status = device_->Copy(task->staging->memory.data(), buffer.data, buffer.bytes(), out_->get());
    }
    if (status.ok()) status = device_->Record(*task->staging->filled, out_->get());
    return status;
  }

  bool Gives(const Collective& collective) const {
    return collective.kind != Collective::Kind::kBroadcast || collective.root == inner_->rank();
  }
  bool Takes(const Collective& collective) const {
    return collective.kind != Collective::Kind::kBroadcast || collective.root != inner_->rank();
  }

  // --- The exchange, on a thread of its own ---

  void RunTasks() {
    for (;;) {
      std::shared_ptr<Task> task;
      {
        MutexLock lock(&mutex_);
        while (!stopping_ && waiting_.empty()) changed_.Wait(&mutex_);
        if (stopping_) return;
        task = std::move(waiting_.front());
        waiting_.pop_front();
        running_ = true;
      }
      ApplyTimeout(task->timeout);
      absl::Status status =
          task->staging == nullptr ? inner_->Run(std::move(task->collective)) : RunStaged(task.get());
      MutexLock lock(&mutex_);
      running_ = false;
      Finish(task.get(), std::move(status));
    }
  }

  absl::Status RunStaged(Task* task) {
    Staging& staging = *task->staging;
    absl::Status status = device_->Await(*staging.filled);
    Collective collective = task->collective;
    collective.buffer.data = staging.memory.data();
    collective.buffer.device = nullptr;
    if (!status.ok()) {
      inner_->Abort(status.message());
      return status;
    }
    if (status = inner_->Run(std::move(collective)); !status.ok()) return status;
    const Buffer& buffer = task->collective.buffer;
    if (Takes(task->collective)) {
      status = device_->Copy(buffer.data, staging.memory.data(), buffer.bytes(), back_->get());
    }
    if (status.ok()) status = device_->Record(*staging.emptied, back_->get());
    if (!status.ok()) inner_->Abort(status.message());
    return status;
  }

  void Finish(Task* task, absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    task->status = std::move(status);
    task->done = true;
    changed_.SignalAll();
  }

  std::unique_ptr<Communicator> inner_;
  device::Device* const device_;
  // Of the thread that starts collectives.
  std::optional<absl::Duration> timeout_;
  std::unique_ptr<device::OwnedStream> out_;
  std::unique_ptr<device::OwnedStream> back_;
  std::unique_ptr<device::Event> ready_;

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<Task>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<Staging>> free_ ABSL_GUARDED_BY(mutex_);
  int64_t pieces_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

namespace {

template <typename Owner>
class StagedWork final : public Work {
 public:
  StagedWork(std::shared_ptr<Owner> owner, std::shared_ptr<Task> task)
      : owner_(std::move(owner)), task_(std::move(task)) {}
  ~StagedWork() override { owner_->Release(task_.get()); }

  absl::Status Wait() override { return owner_->Wait(task_.get()); }
  absl::Status Then(device::Stream stream) override {
    if (task_->staging == nullptr) return Work::Then(stream);
    return owner_->Then(task_.get(), stream);
  }

 private:
  const std::shared_ptr<Owner> owner_;
  const std::shared_ptr<Task> task_;
};

}  // namespace

StagedCommunicator::StagedCommunicator(std::unique_ptr<Communicator> inner, device::Device* device)
    : impl_(std::make_shared<Impl>(std::move(inner), device)) {}

StagedCommunicator::~StagedCommunicator() { impl_->Stop(); }

int StagedCommunicator::rank() const { return impl_->inner().rank(); }
int StagedCommunicator::size() const { return impl_->inner().size(); }
void StagedCommunicator::Abort(absl::string_view reason) { impl_->inner().Abort(reason); }
void StagedCommunicator::SetTimeout(absl::Duration timeout) { impl_->SetTimeout(timeout); }
std::optional<Standing> StagedCommunicator::standing() { return impl_->inner().standing(); }
device::Device* StagedCommunicator::device() const { return impl_->device(); }
int64_t StagedCommunicator::pieces() const { return impl_->pieces(); }

std::unique_ptr<Work> StagedCommunicator::Start(Collective collective) {
  if (impl_->GoesStraight(collective)) return impl_->inner().Start(std::move(collective));
  return std::make_unique<StagedWork<Impl>>(impl_, impl_->Enqueue(std::move(collective)));
}

absl::Status StagedCommunicator::Run(Collective collective) {
  if (impl_->GoesStraight(collective)) return impl_->inner().Run(std::move(collective));
  return StagedWork<Impl>(impl_, impl_->Enqueue(std::move(collective))).Wait();
}

}  // namespace adaptdl::comm
