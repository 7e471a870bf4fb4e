#include "libs/device/guarded_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "libs/base/mutex.h"
#include "libs/base/unique_fd.h"

namespace adaptdl::device {
namespace {

// Work in order, on a thread of its own.
class Queue {
 public:
  // `mutex` and `changed` guard all queues of a device, and `paused`.
  Queue(Mutex* mutex, CondVar* changed, const bool* paused)
      : mutex_(mutex), changed_(changed), paused_(paused), thread_([this] { Work(); }) {}

  // Runs what is left.
  ~Queue() {
    {
      MutexLock lock(mutex_);
      ending_ = true;
      changed_->SignalAll();
    }
    thread_.join();
  }

  void Add(std::function<void()> operation) {
    MutexLock lock(mutex_);
    operations_.push_back(std::move(operation));
    changed_->SignalAll();
  }

 private:
  void Work() {
    for (;;) {
      std::function<void()> operation;
      {
        MutexLock lock(mutex_);
        while ((operations_.empty() && !ending_) || (*paused_ && !ending_)) changed_->Wait(mutex_);
        if (operations_.empty()) return;
        operation = std::move(operations_.front());
        operations_.pop_front();
      }
      operation();
    }
  }

  Mutex* const mutex_;
  CondVar* const changed_;
  const bool* const paused_;
  std::deque<std::function<void()>> operations_;
  bool ending_ = false;
  std::thread thread_;
};

// How often an event was recorded, and how many of these came to pass.
struct Marks {
  int64_t recorded = 0;
  int64_t reached = 0;
  double seconds = 0;
};

class Mark final : public Event {
 public:
  // What is on streams may outlive the event.
  const std::shared_ptr<Marks> marks = std::make_shared<Marks>();
};

class QueueStream final : public OwnedStream {
 public:
  explicit QueueStream(std::unique_ptr<Queue> queue) : queue_(std::move(queue)) {}
  Stream get() const override { return queue_.get(); }

 private:
  const std::unique_ptr<Queue> queue_;
};

double SteadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

class GuardedDevice::Impl {
 public:
  explicit Impl(std::function<double()> seconds) : seconds_(std::move(seconds)) {}
  ~Impl() { default_queue_.reset(); }

  absl::StatusOr<Memory> Allocate(int64_t bytes) {
    const auto page = static_cast<size_t>(getpagesize());
    const size_t size = (static_cast<size_t>(bytes) / page + 1) * page;
    const UniqueFd file(memfd_create("adaptdl-guarded", MFD_CLOEXEC));
    if (!file.valid() || ftruncate(file.get(), static_cast<off_t>(size)) != 0) return OutOfMemory(bytes);
    void* const mine = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    void* const theirs = mmap(nullptr, size, PROT_NONE, MAP_SHARED, file.get(), 0);
    if (mine == MAP_FAILED || theirs == MAP_FAILED) return OutOfMemory(bytes);
    std::memset(mine, 0xff, size);  // NaN: what is not written is seen
    MutexLock lock(&memory_mutex_);
    pieces_[reinterpret_cast<uintptr_t>(theirs)] = {reinterpret_cast<uintptr_t>(mine), size};
    return Memory(theirs, bytes, [this, theirs] { Free(theirs); });
  }

  // Where the device finds it. Of other memory: the same.
  template <typename T>
  T* Mine(T* theirs) {
    const auto address = reinterpret_cast<uintptr_t>(theirs);
    MutexLock lock(&memory_mutex_);
    auto piece = pieces_.upper_bound(address);
    if (piece == pieces_.begin()) return theirs;
    --piece;
    const uintptr_t offset = address - piece->first;
    if (offset >= piece->second.size) return theirs;
    return reinterpret_cast<T*>(piece->second.mine +
                                offset);  // NOLINT(performance-no-int-to-ptr): another mapping
  }

  std::unique_ptr<Queue> NewQueue() { return std::make_unique<Queue>(&mutex_, &changed_, &paused_); }

  void Add(Stream stream, std::function<void()> operation) {
    {
      MutexLock lock(&mutex_);
      ++operations_;
    }
    (stream == nullptr ? default_queue_.get() : static_cast<Queue*>(stream))->Add(std::move(operation));
  }

  void Record(const std::shared_ptr<Marks>& marks, Stream stream) {
    int64_t number = 0;
    {
      MutexLock lock(&mutex_);
      number = ++marks->recorded;
    }
    Add(stream, [this, marks, number] {
      MutexLock lock(&mutex_);
      marks->reached = std::max(marks->reached, number);
      marks->seconds = seconds_();
      changed_.SignalAll();
    });
  }

  void WaitFor(const std::shared_ptr<Marks>& marks, Stream stream) {
    int64_t number = 0;
    {
      MutexLock lock(&mutex_);
      number = marks->recorded;
    }
    Add(stream, [this, marks, number] { Await(*marks, number); });
  }

  void Await(const Marks& marks) {
    int64_t number = 0;
    {
      MutexLock lock(&mutex_);
      number = marks.recorded;
    }
    Await(marks, number);
  }

  bool IsDone(const Marks& marks) {
    MutexLock lock(&mutex_);
    return marks.reached == marks.recorded;
  }

  double SecondsAt(const Marks& marks) {
    MutexLock lock(&mutex_);
    return marks.seconds;
  }

  void SetPaused(bool paused) {
    MutexLock lock(&mutex_);
    paused_ = paused;
    changed_.SignalAll();
  }

  int64_t operations() {
    MutexLock lock(&mutex_);
    return operations_;
  }

 private:
  struct Piece {
    uintptr_t mine = 0;
    size_t size = 0;
  };

  static absl::Status OutOfMemory(int64_t bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " guarded bytes"));
  }

  void Free(void* theirs) {
    Piece piece;
    {
      MutexLock lock(&memory_mutex_);
      const auto found = pieces_.find(reinterpret_cast<uintptr_t>(theirs));
      piece = found->second;
      pieces_.erase(found);
    }
    (void)munmap(theirs, piece.size);
    (void)munmap(reinterpret_cast<void*>(piece.mine), piece.size);
  }

  void Await(const Marks& marks, int64_t number) {
    MutexLock lock(&mutex_);
    while (marks.reached < number) changed_.Wait(&mutex_);
  }

  const std::function<double()> seconds_;
  Mutex memory_mutex_;
  std::map<uintptr_t, Piece> pieces_ ABSL_GUARDED_BY(memory_mutex_);

  // Of streams and events.
  Mutex mutex_;
  CondVar changed_;
  bool paused_ = false;
  int64_t operations_ = 0;
  std::unique_ptr<Queue> default_queue_ = NewQueue();
};

GuardedDevice::GuardedDevice(std::function<double()> seconds)
    : impl_(std::make_unique<Impl>(seconds ? std::move(seconds) : SteadySeconds)) {}
GuardedDevice::~GuardedDevice() = default;

absl::StatusOr<Memory> GuardedDevice::Allocate(int64_t bytes) { return impl_->Allocate(bytes); }

absl::StatusOr<Memory> GuardedDevice::AllocateHost(int64_t bytes) {
  auto numbers = std::make_unique<std::vector<double>>(static_cast<size_t>(bytes) / sizeof(double) + 1);
  double* const data = numbers->data();
  // The function is copied: it holds what it frees by a pointer that may be.
  std::shared_ptr<std::vector<double>> held = std::move(numbers);
  return Memory(data, bytes, [held] {});
}

absl::StatusOr<std::unique_ptr<OwnedStream>> GuardedDevice::CreateStream() {
  return std::make_unique<QueueStream>(impl_->NewQueue());
}

absl::StatusOr<std::unique_ptr<Event>> GuardedDevice::CreateEvent(bool /*timed*/) {
  return std::make_unique<Mark>();
}

absl::Status GuardedDevice::Copy(void* to, const void* from, int64_t bytes, Stream stream) {
  impl_->Add(stream, [this, to, from, bytes] {
    if (bytes > 0) std::memmove(impl_->Mine(to), impl_->Mine(from), static_cast<size_t>(bytes));
  });
  return absl::OkStatus();
}

absl::Status GuardedDevice::SetZero(void* data, int64_t bytes, Stream stream) {
  impl_->Add(stream, [this, data, bytes] {
    if (bytes > 0) std::memset(impl_->Mine(data), 0, static_cast<size_t>(bytes));
  });
  return absl::OkStatus();
}

absl::Status GuardedDevice::Run(absl::Span<const TensorPass> passes, double* sums, Stream stream) {
  impl_->Add(stream, [this, passes = std::vector<TensorPass>(passes.begin(), passes.end()), sums]() mutable {
    for (TensorPass& pass : passes) {
      pass.source = impl_->Mine(pass.source);
      pass.target = impl_->Mine(pass.target);
      pass.previous = impl_->Mine(pass.previous);
      pass.kept = impl_->Mine(pass.kept);
      pass.exp_avg_sq = impl_->Mine(pass.exp_avg_sq);
    }
    RunOnCpu(passes, impl_->Mine(sums));
  });
  return absl::OkStatus();
}

absl::Status GuardedDevice::Record(Event& event, Stream stream) {
  impl_->Record(static_cast<Mark&>(event).marks, stream);
  return absl::OkStatus();
}

absl::Status GuardedDevice::WaitFor(Event& event, Stream stream) {
  impl_->WaitFor(static_cast<Mark&>(event).marks, stream);
  return absl::OkStatus();
}

absl::StatusOr<bool> GuardedDevice::IsDone(Event& event) {
  return impl_->IsDone(*static_cast<Mark&>(event).marks);
}

absl::StatusOr<double> GuardedDevice::SecondsBetween(Event& from, Event& to) {
  return impl_->SecondsAt(*static_cast<Mark&>(to).marks) - impl_->SecondsAt(*static_cast<Mark&>(from).marks);
}

absl::Status GuardedDevice::DoAwait(Event& event) {
  impl_->Await(*static_cast<Mark&>(event).marks);
  return absl::OkStatus();
}

void GuardedDevice::Enqueue(Stream stream, std::function<void()> function) {
  impl_->Add(stream, std::move(function));
}
void* GuardedDevice::Translate(void* data) const { return impl_->Mine(static_cast<char*>(data)); }

void GuardedDevice::Pause() { impl_->SetPaused(true); }
void GuardedDevice::Resume() { impl_->SetPaused(false); }
int64_t GuardedDevice::operations() const { return impl_->operations(); }

}  // namespace adaptdl::device
