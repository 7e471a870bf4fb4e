#include "libs/comm/tcp_communicator.h"

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/comm/in_process_communicator.h"
#include "libs/comm/membership.h"
#include "libs/comm/message_collectives.h"
#include "libs/comm/socket_transport.h"
#include "libs/comm/threads.h"

namespace adaptdl::comm {
namespace {

// A collective that waits for its turn or is being run, and where its outcome will be.
struct Task {
  Collective collective;
  uint64_t number = 0;
  absl::Duration timeout;
  bool done = false;
  absl::Status status;
};

// The tasks of one communicator, and the condition that one has changed.
struct TaskQueue {
  Mutex mutex;
  CondVar changed;
  std::deque<std::shared_ptr<Task>> waiting ABSL_GUARDED_BY(mutex);
  bool running ABSL_GUARDED_BY(mutex) = false;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  uint64_t next ABSL_GUARDED_BY(mutex) = 1;  // number 0 is the forming of the group
};

class TcpWork final : public Work {
 public:
  TcpWork(std::shared_ptr<TaskQueue> queue, std::shared_ptr<Task> task)
      : queue_(std::move(queue)), task_(std::move(task)) {}
  ~TcpWork() override { (void)Wait(); }

  absl::Status Wait() override {
    MutexLock lock(&queue_->mutex);
    while (!task_->done) queue_->changed.Wait(&queue_->mutex);
    return task_->status;
  }

 private:
  const std::shared_ptr<TaskQueue> queue_;
  const std::shared_ptr<Task> task_;
};

class TcpCommunicator final : public Communicator {
 public:
  TcpCommunicator(const ConnectOptions& options, std::unique_ptr<Transport> transport)
      : rank_(options.rank),
        size_(options.size),
        transport_(std::move(transport)),
        timeout_(options.timeout) {}

  ~TcpCommunicator() override {
    {
      MutexLock lock(&queue_->mutex);
      queue_->stopping = true;
      queue_->changed.SignalAll();
    }
    if (thread_.joinable()) thread_.join();
    DropWaiting();
    // The others hear of a farewell before connections end.
    membership_.reset();
    collectives_.reset();
    transport_->Close();
  }

  absl::Status Connect(const ConnectOptions& options, TcpRendezvous::Meeting meeting) {
    SignalsBlocked blocked;
    const std::vector<std::string> addresses = std::move(meeting.parts);
    membership_ = std::make_unique<Membership>(options, std::move(meeting), [this] { OnFailure(); });
    absl::Status begun = membership_->Begin(0, FormingSignature(), options.ConnectTimeout());
    if (!begun.ok()) return begun;
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      membership_->SetStep(peer, peer + 1, size_);
      std::string error;
      if (transport_->Connect(peer, addresses[peer], &error) != Transport::Result::kDone) {
        return membership_->Broken(peer, error);
      }
    }
    {
      MutexLock lock(&failure_mutex_);
      collectives_ = std::make_unique<MessageCollectives>(rank_, size_, transport_.get(), membership_.get());
    }
    if (absl::Status status = membership_->End(); !status.ok()) return status;
    thread_ = std::thread([this] { RunTasks(); });
    return absl::OkStatus();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void Abort(absl::string_view reason) override {
    (void)membership_->Fail(absl::AbortedError(reason),
                            absl::UnavailableError(absl::StrCat("rank ", rank_, " has aborted: ", reason)));
  }

  void SetTimeout(absl::Duration timeout) override { timeout_ = timeout; }
  std::optional<Standing> standing() override { return membership_->standing(); }

 private:
  // What nobody will run any more.
  void DropWaiting() {
    MutexLock lock(&queue_->mutex);
    for (const std::shared_ptr<Task>& task : queue_->waiting) {
      task->status = absl::AbortedError("the communicator was destroyed before this collective began");
      task->done = true;
    }
    queue_->waiting.clear();
    queue_->changed.SignalAll();
  }

  std::unique_ptr<Work> Start(Collective collective) override {
    auto task = std::make_shared<Task>();
    task->collective = std::move(collective);
    task->timeout = timeout_;
    MutexLock lock(&queue_->mutex);
    task->number = queue_->next++;
    queue_->waiting.push_back(task);
    queue_->changed.SignalAll();
    return std::make_unique<TcpWork>(queue_, std::move(task));
  }

  // In this thread where nothing is before it: handing over to another one costs as much as a small exchange.
  absl::Status Run(Collective collective) override {
    uint64_t number = 0;
    {
      MutexLock lock(&queue_->mutex);
      if (!queue_->running && queue_->waiting.empty()) {
        queue_->running = true;
        number = queue_->next++;
      }
    }
    if (number == 0) return Start(std::move(collective))->Wait();
    absl::Status status = collectives_->Run(number, timeout_, &collective);
    MutexLock lock(&queue_->mutex);
    queue_->running = false;
    if (!queue_->waiting.empty()) queue_->changed.SignalAll();
    return status;
  }

  // The thread of what was started asynchronously. It takes no signals: Connect() has blocked them.
  void RunTasks() {
    for (;;) {
      std::shared_ptr<Task> task;
      {
        MutexLock lock(&queue_->mutex);
        while (!queue_->stopping && (queue_->running || queue_->waiting.empty())) {
          queue_->changed.Wait(&queue_->mutex);
        }
        if (queue_->stopping) return;
        task = std::move(queue_->waiting.front());
        queue_->waiting.pop_front();
        queue_->running = true;
      }
      absl::Status status = collectives_->Run(task->number, task->timeout, &task->collective);
      MutexLock lock(&queue_->mutex);
      task->status = std::move(status);
      task->done = true;
      queue_->running = false;
      queue_->changed.SignalAll();
    }
  }

  void OnFailure() {
    MutexLock lock(&failure_mutex_);
    if (collectives_ != nullptr) {
      collectives_->Abort();
    } else {
      transport_->Close();
    }
  }

  const int rank_;
  const int size_;
  const std::unique_ptr<Transport> transport_;
  absl::Duration timeout_;  // of the thread that starts collectives
  Mutex failure_mutex_;     // of collectives_ being set and used by OnFailure()
  std::unique_ptr<MessageCollectives> collectives_;
  std::unique_ptr<Membership> membership_;
  const std::shared_ptr<TaskQueue> queue_ = std::make_shared<TaskQueue>();
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> ConnectTcp(TcpRendezvous& rendezvous,
                                                         const ConnectOptions& options) {
  if (options.size == 1) return std::move(CreateInProcessGroup(1, options.timeout).front());
  absl::StatusOr<std::unique_ptr<Transport>> transport = CreateSocketTransport(
      {options.rank, options.size, options.host, absl::ToInt64Milliseconds(options.ConnectTimeout())});
  if (!transport.ok()) return transport.status();
  absl::StatusOr<TcpRendezvous::Meeting> meeting = rendezvous.Meet(options, (*transport)->address());
  if (!meeting.ok()) return meeting.status();
  auto communicator = std::make_unique<TcpCommunicator>(options, *std::move(transport));
  if (absl::Status status = communicator->Connect(options, *std::move(meeting)); !status.ok()) return status;
  return communicator;
}

}  // namespace adaptdl::comm
