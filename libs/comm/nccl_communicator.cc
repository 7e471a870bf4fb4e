#include "libs/comm/nccl_communicator.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/comm/in_process_communicator.h"
#include "libs/comm/membership.h"
#include "libs/comm/nccl_group.h"
#include "libs/comm/signature.h"
#include "libs/comm/staged_communicator.h"
#include "libs/comm/tcp_communicator.h"
#include "libs/comm/threads.h"

namespace adaptdl::comm {
namespace {

constexpr absl::Duration kWatch = absl::Microseconds(200);
// How long what only says that somebody is gone waits for what the members know about it. On the device that is what
// NCCL says; in main memory another member may have ended the group for a reason that is under way.
constexpr absl::Duration kDeviceExplanation = absl::Milliseconds(500);
constexpr absl::Duration kHostExplanation = absl::Milliseconds(100);

// A collective on the device.
struct NcclTask {
  uint64_t number = 0;
  Signature signature;
  absl::Duration timeout;
  std::unique_ptr<device::Event> done;
  // Guarded by the communicator's mutex.
  bool launched = false;  // and `done` is recorded
  bool finished = false;
  absl::Status status;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(const ConnectOptions& options, std::unique_ptr<Communicator> main_memory,
                   NcclLibrary library, device::Device* device, absl::Duration ending)
      : rank_(options.rank),
        size_(options.size),
        ending_(ending),
        timeout_(options.timeout),
        device_(device),
        main_memory_(std::move(main_memory)),
        group_(std::move(library), device, [this](absl::Duration time) { return Pause(time); }) {}

  ~NcclCommunicator() override {
    {
      MutexLock lock(&mutex_);
      stopping_ = true;
      changed_.SignalAll();
    }
    if (watcher_.joinable()) {
      watcher_.join();
      group_.End(ending_);
    }
    // The farewell comes before connections end.
    membership_.reset();
  }

  absl::Status Connect(const ConnectOptions& options, TcpRendezvous::Meeting meeting) {
    nccl::UniqueId id;
    if (meeting.parts[0].size() != sizeof(id)) {
      return absl::InternalError("rank 0 did not send NCCL's unique id");
    }
    std::memcpy(&id, meeting.parts[0].data(), sizeof(id));
    SignalsBlocked blocked;
    membership_ = std::make_unique<Membership>(options, std::move(meeting), [this] { OnFailure(); });
    absl::Status begun = membership_->Begin(0, FormingSignature(), options.ConnectTimeout());
    if (!begun.ok()) return begun;
    if (absl::Status status = Form(id); !status.ok()) return Fail(status);
    if (absl::Status status = membership_->End(); !status.ok()) return status;
    watcher_ = std::thread([this] { Watch(); });
    return absl::OkStatus();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  device::Device* device() const override { return device_; }

  void Abort(absl::string_view reason) override {
    (void)membership_->Fail(absl::AbortedError(reason),
                            absl::UnavailableError(absl::StrCat("rank ", rank_, " has aborted: ", reason)));
  }

  void SetTimeout(absl::Duration timeout) override {
    timeout_ = timeout;
    main_memory_->SetTimeout(timeout);
  }

 private:
  // Of main memory; its failure is the group's.
  class HostWork final : public Work {
   public:
    HostWork(NcclCommunicator* owner, std::unique_ptr<Work> work) : owner_(owner), work_(std::move(work)) {}
    absl::Status Wait() override { return owner_->OfAll(work_->Wait()); }

   private:
    NcclCommunicator* const owner_;
    const std::unique_ptr<Work> work_;
  };

  class NcclWork final : public Work {
   public:
    NcclWork(NcclCommunicator* owner, std::shared_ptr<NcclTask> task)
        : owner_(owner), task_(std::move(task)) {}
    ~NcclWork() override {
      if (!Wait().ok()) owner_->Drain(task_.get());
    }
    absl::Status Wait() override { return owner_->Wait(*task_); }
    absl::Status Then(device::Stream stream) override { return owner_->Then(*task_, stream); }

   private:
    NcclCommunicator* const owner_;
    const std::shared_ptr<NcclTask> task_;
  };

  absl::Status Form(const nccl::UniqueId& id) {
    absl::StatusOr<std::unique_ptr<device::OwnedStream>> stream = device_->CreateStream();
    if (!stream.ok()) return stream.status();
    stream_ = *std::move(stream);
    absl::StatusOr<std::unique_ptr<device::Event>> before = device_->CreateEvent(/*timed=*/false);
    if (!before.ok()) return before.status();
    before_ = *std::move(before);
    return group_.Form(id, rank_, size_);
  }

  absl::Status Pause(absl::Duration time) { return membership_->AwaitFailure(time); }

  // May come while `membership_` is being made.
  void OnFailure() {
    group_.Abort();
    main_memory_->Abort("its group has failed");
  }

  // Ends the group, if nothing did before; returns what did.
  absl::Status Fail(const absl::Status& status, absl::Duration explanation = kDeviceExplanation) {
    if (absl::IsUnavailable(status)) (void)membership_->AwaitFailure(explanation);
    return membership_->Fail(status);
  }

  absl::Status OfAll(const absl::Status& status) {
    return status.ok() ? status : Fail(status, kHostExplanation);
  }

  std::unique_ptr<Work> Start(Collective collective) override {
    if (absl::Status status = membership_->status(); !status.ok()) return Refused(status);
    if (collective.buffer.device != nullptr) return StartOnDevice(collective);
    return std::make_unique<HostWork>(this, StartOn(*main_memory_, std::move(collective)));
  }

  absl::Status Run(Collective collective) override {
    if (collective.buffer.device != nullptr) return Start(std::move(collective))->Wait();
    if (absl::Status status = membership_->status(); !status.ok()) return status;
    return OfAll(RunOn(*main_memory_, std::move(collective)));
  }

  std::unique_ptr<Work> StartOnDevice(const Collective& collective) {
    absl::StatusOr<std::unique_ptr<device::Event>> done = device_->CreateEvent(/*timed=*/false);
    if (!done.ok()) return Refused(membership_->Fail(done.status()));
    auto task = std::make_shared<NcclTask>();
    task->number = next_++;
    task->signature = SignatureOf(collective);
    task->timeout = timeout_;
    task->done = *std::move(done);
    {
      // Its time runs from now on: NCCL may wait for the others to take it.
      MutexLock lock(&mutex_);
      tasks_.push_back(task);
      changed_.SignalAll();
    }
    if (absl::Status status = Launch(collective, task.get()); !status.ok()) {
      (void)Fail(status);
    } else {
      MutexLock lock(&mutex_);
      task->launched = true;
    }
    return std::make_unique<NcclWork>(this, std::move(task));
  }

  absl::Status Launch(const Collective& collective, NcclTask* task) {
    if (absl::Status status = device_->Record(*before_, collective.buffer.stream); !status.ok())
      return status;
    if (absl::Status status = device_->WaitFor(*before_, stream_->get()); !status.ok()) return status;
    if (absl::Status status = group_.Launch(collective, stream_->get()); !status.ok()) return status;
    return device_->Record(*task->done, stream_->get());
  }

  // What the device has done is not waited for. Where an abort ended it, the group had failed before.
  absl::Status Wait(const NcclTask& task) {
    if (Launched(task)) {
      const absl::StatusOr<bool> done = device_->IsDone(*task.done);
      if (done.ok() && *done) return membership_->status();
    }
    ++device::Device::WaitsOfThread();
    MutexLock lock(&mutex_);
    while (!task.finished) changed_.Wait(&mutex_);
    return task.status;
  }

  absl::Status Then(const NcclTask& task, device::Stream stream) {
    if (absl::Status status = membership_->status(); !status.ok()) return status;
    absl::Status status = device_->WaitFor(*task.done, stream);
    return status.ok() ? status : membership_->Fail(status);
  }

  // Until an aborted collective has let go of its buffer.
  void Drain(NcclTask* task) {
    if (device_->Record(*task->done, stream_->get()).ok()) (void)device_->Await(*task->done);
  }

  bool Launched(const NcclTask& task) {
    MutexLock lock(&mutex_);
    return task.launched;
  }

  // Follows the oldest collective under way, which is the one whose time runs.
  void Watch() {
    for (;;) {
      std::shared_ptr<NcclTask> task;
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

  absl::Status Follow(const NcclTask& task) {
    absl::Status status = membership_->Begin(task.number, task.signature, task.timeout);
    while (status.ok()) {
      if (Launched(task)) {
        const absl::StatusOr<bool> done = device_->IsDone(*task.done);
        if (!done.ok()) return membership_->Fail(done.status());
        if (*done) return membership_->End();
      }
      if (absl::Status state = group_.state(); !state.ok()) return Fail(state);
      status = membership_->AwaitFailure(kWatch);
    }
    return status;
  }

  const int rank_;
  const int size_;
  const absl::Duration ending_;
  absl::Duration timeout_;  // of the thread that starts collectives
  device::Device* const device_;
  const std::unique_ptr<Communicator> main_memory_;
  std::unique_ptr<device::OwnedStream> stream_;
  std::unique_ptr<device::Event> before_;  // what was on a buffer's stream when a collective was started
  NcclGroup group_;
  std::unique_ptr<Membership> membership_;
  uint64_t next_ = 1;  // number 0 is the forming of the group

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<NcclTask>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread watcher_;
};

// What a member tells the others before they form the group: its version, or what is wrong.
constexpr char kUsable = '+';
constexpr char kUnusable = '-';

std::string Offer(const absl::Status& status, int version) {
  return status.ok() ? absl::StrCat(std::string(1, kUsable), NcclVersionText(version))
                     : absl::StrCat(std::string(1, kUnusable), status.message());
}

// The same on all members.
absl::Status CheckOffers(const std::vector<std::string>& offers) {
  std::vector<std::string> wrong;
  for (size_t rank = 0; rank < offers.size(); ++rank) {
    const std::string text = offers[rank].substr(std::min<size_t>(1, offers[rank].size()));
    if (offers[rank].empty() || offers[rank][0] != kUsable) {
      wrong.push_back(absl::StrCat("rank ", rank, ": ", text));
    } else if (offers[rank] != offers[0] && offers[0][0] == kUsable) {
      wrong.push_back(absl::StrCat("rank ", rank, " has NCCL ", text, ", and rank 0 has ",
                                   offers[0].substr(1), ": install the same everywhere"));
    }
  }
  return wrong.empty() ? absl::OkStatus() : absl::FailedPreconditionError(absl::StrJoin(wrong, "; "));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> ConnectNccl(TcpRendezvous& rendezvous,
                                                          const ConnectOptions& options,
                                                          device::Device& device) {
  const bool alone = options.size == 1;
  return ConnectNccl(rendezvous, options, device,
                     {alone ? absl::StatusOr<NcclLibrary>(NcclLibrary()) : NcclLibrary::Open()});
}

absl::StatusOr<std::unique_ptr<Communicator>> ConnectNccl(TcpRendezvous& rendezvous,
                                                          const ConnectOptions& options,
                                                          device::Device& device,
                                                          const NcclSettings& settings) {
  absl::StatusOr<std::unique_ptr<Communicator>> main_memory = ConnectTcp(rendezvous, options);
  if (!main_memory.ok()) return main_memory;
  if (options.size == 1) return CreateStagedCommunicator(*std::move(main_memory), &device);

  const absl::StatusOr<NcclLibrary>& library = settings.library;
  absl::Status status = library.status();
  std::string part;
  if (status.ok() && options.rank == 0) {
    nccl::UniqueId id;
    status = library->StatusOf(library->get_unique_id(&id), "making a unique id");
    part.assign(id.bytes.data(), id.bytes.size());
  }
  const absl::StatusOr<std::vector<std::string>> offers =
      (*main_memory)->AllGather(Offer(status, status.ok() ? library->version : 0));
  if (!offers.ok()) return offers.status();
  if (status = CheckOffers(*offers); !status.ok()) return status;

  ConnectOptions second = options;
  second.channel = "nccl";
  absl::StatusOr<TcpRendezvous::Meeting> meeting = rendezvous.Meet(second, part);
  if (!meeting.ok()) return meeting.status();
  auto communicator = std::make_unique<NcclCommunicator>(options, *std::move(main_memory), *library, &device,
                                                         settings.ending);
  if (status = communicator->Connect(options, *std::move(meeting)); !status.ok()) return status;
  return communicator;
}

}  // namespace adaptdl::comm
