#include "libs/comm/staged_communicator.h"

#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/comm/staging_pool.h"
#include "libs/comm/threads.h"

namespace adaptdl::comm {
namespace {

// A collective that waits for its turn in the inner group, or is under way there.
struct StagedTask {
  // Over main memory: if `staging` is there, over that.
  Collective collective;
  std::optional<absl::Duration> timeout;
  void* data = nullptr;  // on the device
  std::unique_ptr<Staging> staging;
  // The device's last work for it. Whoever has seen `exchanged` may look.
  device::Event* last = nullptr;
  // Guarded by the mutex of StagedState.
  bool exchanged = false;
  absl::Status status;
};

// What a communicator shares with its Works.
struct StagedState {
  explicit StagedState(device::Device* used) : device(used), pool(used) {}

  // The device has failed: so does the group.
  absl::Status Fail(const absl::Status& status) {
    {
      MutexLock lock(&mutex);
      if (!failure.ok()) return failure;
      failure = status;
    }
    if (const std::shared_ptr<Communicator> group = inner.lock()) group->Abort(status.message());
    return status;
  }

  device::Device* const device;
  std::weak_ptr<Communicator> inner;
  StagingPool pool;
  // After the pool: what is on them uses its memory.
  std::unique_ptr<device::OwnedStream> out;
  std::unique_ptr<device::OwnedStream> back;

  Mutex mutex;
  CondVar changed;
  std::deque<std::shared_ptr<StagedTask>> waiting ABSL_GUARDED_BY(mutex);
  bool running ABSL_GUARDED_BY(mutex) = false;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  absl::Status failure ABSL_GUARDED_BY(mutex);  // of the device
};

class StagedWork final : public Work {
 public:
  StagedWork(std::shared_ptr<StagedState> state, std::shared_ptr<StagedTask> task)
      : state_(std::move(state)), task_(std::move(task)) {}

  ~StagedWork() override {
    (void)AwaitExchange();
    if (task_->staging == nullptr) return;
    (void)AwaitDevice();
    state_->pool.Return(std::move(task_->staging));
  }

  absl::Status Wait() override {
    absl::Status status = AwaitExchange();
    return status.ok() && task_->staging != nullptr ? AwaitDevice() : status;
  }

  absl::Status Then(device::Stream stream) override {
    if (task_->staging == nullptr) return Work::Then(stream);
    if (absl::Status status = AwaitExchange(); !status.ok()) return status;
    absl::Status status = state_->device->WaitFor(*task_->last, stream);
    return status.ok() ? status : state_->Fail(status);
  }

 private:
  absl::Status AwaitExchange() {
    MutexLock lock(&state_->mutex);
    while (!task_->exchanged) state_->changed.Wait(&state_->mutex);
    return task_->status;
  }

  // What is done already is no wait, and is not counted as one.
  absl::Status AwaitDevice() {
    const absl::StatusOr<bool> done = state_->device->IsDone(*task_->last);
    if (done.ok() && *done) return absl::OkStatus();
    absl::Status status = done.ok() ? state_->device->Await(*task_->last) : done.status();
    return status.ok() ? status : state_->Fail(status);
  }

  const std::shared_ptr<StagedState> state_;
  const std::shared_ptr<StagedTask> task_;
};

class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(std::unique_ptr<Communicator> inner, device::Device* device)
      : inner_(std::move(inner)), state_(std::make_shared<StagedState>(device)) {
    state_->inner = inner_;
  }

  ~StagedCommunicator() override {
    {
      MutexLock lock(&state_->mutex);
      state_->stopping = true;
      state_->changed.SignalAll();
    }
    if (thread_.joinable()) thread_.join();
    DropWaiting();
  }

  absl::Status Begin() {
    for (std::unique_ptr<device::OwnedStream>* stream : {&state_->out, &state_->back}) {
      absl::StatusOr<std::unique_ptr<device::OwnedStream>> created = state_->device->CreateStream();
      if (!created.ok()) return created.status();
      *stream = *std::move(created);
    }
    absl::StatusOr<std::unique_ptr<device::Event>> before = state_->device->CreateEvent(/*timed=*/false);
    if (!before.ok()) return before.status();
    before_ = *std::move(before);
    SignalsBlocked blocked;
    thread_ = std::thread([this] { RunTasks(); });
    return absl::OkStatus();
  }

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  device::Device* device() const override { return state_->device; }
  void Abort(absl::string_view reason) override { inner_->Abort(reason); }
  void SetTimeout(absl::Duration timeout) override { timeout_ = timeout; }
  std::optional<Standing> standing() override { return inner_->standing(); }

 private:
  std::unique_ptr<Work> Start(Collective collective) override {
    if (absl::Status status = failure(); !status.ok()) return Refused(status);
    if (collective.buffer.device != nullptr) return StartStaged(std::move(collective));
    if (idle()) {
      SetInnerTimeout(timeout_);
      return StartOn(*inner_, std::move(collective));
    }
    auto task = std::make_shared<StagedTask>();
    task->collective = std::move(collective);
    return Queue(std::move(task));
  }

  absl::Status Run(Collective collective) override {
    if (collective.buffer.device != nullptr || !idle()) return Start(std::move(collective))->Wait();
    if (absl::Status status = failure(); !status.ok()) return status;
    SetInnerTimeout(timeout_);
    return RunOn(*inner_, std::move(collective));
  }

  absl::Status failure() {
    MutexLock lock(&state_->mutex);
    return state_->failure;
  }

  // Whether nothing is to be started in the inner group any more. It stays so until this thread starts something.
  bool idle() {
    MutexLock lock(&state_->mutex);
    return !state_->running && state_->waiting.empty();
  }

  // By the thread that starts something there next. Empty: it has its own still.
  void SetInnerTimeout(std::optional<absl::Duration> timeout) {
    if (timeout) inner_->SetTimeout(*timeout);
  }

  std::unique_ptr<Work> StartStaged(Collective collective) {
    absl::StatusOr<std::unique_ptr<Staging>> staging =
        state_->pool.Take(size() == 1 ? 0 : collective.buffer.bytes());
    if (!staging.ok()) return Refused(state_->Fail(staging.status()));
    auto task = std::make_shared<StagedTask>();
    task->staging = *std::move(staging);
    task->last = task->staging->copied_out.get();
    task->collective = std::move(collective);
    if (size() == 1) return StartAlone(std::move(task));
    if (absl::Status status = CopyOut(task.get()); !status.ok()) {
      // The device may still be at it.
      state_->pool.Return(std::move(task->staging));
      return Refused(state_->Fail(status));
    }
    return Queue(std::move(task));
  }

  // The data stays where it is; the inner group says whether it has failed.
  std::unique_ptr<Work> StartAlone(std::shared_ptr<StagedTask> task) {
    task->status = RunOn(*inner_, Collective());
    if (task->status.ok()) {
      task->status = state_->device->Record(*task->last, task->collective.buffer.stream);
      if (!task->status.ok()) task->status = state_->Fail(task->status);
    }
    task->exchanged = true;
    return std::make_unique<StagedWork>(state_, std::move(task));
  }

  // Leaves the collective over the memory that is copied to.
  absl::Status CopyOut(StagedTask* task) {
    device::Device& device = *state_->device;
    const device::Stream out = state_->out->get();
    Buffer& buffer = task->collective.buffer;
    if (absl::Status status = device.Record(*before_, buffer.stream); !status.ok()) return status;
    if (absl::Status status = device.WaitFor(*before_, out); !status.ok()) return status;
    void* const staged = task->staging->memory.data();
    if (Reads(task->collective) && buffer.bytes() > 0) {
      if (absl::Status status = device.Copy(staged, buffer.data, buffer.bytes(), out); !status.ok()) {
        return status;
      }
    }
    task->data = buffer.data;
    buffer = {staged, buffer.count, buffer.type};
    return device.Record(*task->staging->copied_out, out);
  }

  absl::Status CopyBack(StagedTask* task) {
    const Buffer& buffer = task->collective.buffer;
    if (!Writes(task->collective) || buffer.bytes() == 0) return absl::OkStatus();
    const device::Stream back = state_->back->get();
    absl::Status status = state_->device->Copy(task->data, buffer.data, buffer.bytes(), back);
    if (!status.ok()) return status;
    task->last = task->staging->copied_back.get();
    return state_->device->Record(*task->last, back);
  }

  bool Reads(const Collective& collective) const {
    return collective.kind != Collective::Kind::kBroadcast || collective.root == rank();
  }
  bool Writes(const Collective& collective) const {
    return collective.kind != Collective::Kind::kBroadcast || collective.root != rank();
  }

  std::unique_ptr<Work> Queue(std::shared_ptr<StagedTask> task) {
    task->timeout = timeout_;
    {
      MutexLock lock(&state_->mutex);
      state_->waiting.push_back(task);
      state_->changed.SignalAll();
    }
    return std::make_unique<StagedWork>(state_, std::move(task));
  }

  // The thread of what is on the device, and of what came after that.
  void RunTasks() {
    for (;;) {
      std::shared_ptr<StagedTask> task;
      {
        MutexLock lock(&state_->mutex);
        while (!state_->stopping && state_->waiting.empty()) state_->changed.Wait(&state_->mutex);
        if (state_->stopping) return;
        task = std::move(state_->waiting.front());
        state_->waiting.pop_front();
        state_->running = true;
      }
      absl::Status status = Exchange(task.get());
      MutexLock lock(&state_->mutex);
      task->status = std::move(status);
      task->exchanged = true;
      state_->running = false;
      state_->changed.SignalAll();
    }
  }

  absl::Status Exchange(StagedTask* task) {
    if (absl::Status status = failure(); !status.ok()) return status;
    if (task->staging != nullptr) {
      absl::Status status = state_->device->Await(*task->staging->copied_out);
      if (!status.ok()) return state_->Fail(status);
    }
    SetInnerTimeout(task->timeout);
    absl::Status status = RunOn(*inner_, task->collective);
    if (!status.ok() || task->staging == nullptr) return status;
    status = CopyBack(task);
    return status.ok() ? status : state_->Fail(status);
  }

  // What nobody will run any more.
  void DropWaiting() {
    MutexLock lock(&state_->mutex);
    for (const std::shared_ptr<StagedTask>& task : state_->waiting) {
      task->status = absl::AbortedError("the communicator was destroyed before this collective began");
      task->exchanged = true;
    }
    state_->waiting.clear();
    state_->changed.SignalAll();
  }

  const std::shared_ptr<Communicator> inner_;
  const std::shared_ptr<StagedState> state_;
  std::optional<absl::Duration> timeout_;  // of the thread that starts collectives
  std::unique_ptr<device::Event> before_;  // what was on a buffer's stream when a collective was started
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> CreateStagedCommunicator(std::unique_ptr<Communicator> inner,
                                                                       device::Device* device) {
  auto communicator = std::make_unique<StagedCommunicator>(std::move(inner), device);
  if (absl::Status status = communicator->Begin(); !status.ok()) return status;
  return communicator;
}

}  // namespace adaptdl::comm
