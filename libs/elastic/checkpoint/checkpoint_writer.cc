#include "libs/elastic/checkpoint/checkpoint_writer.h"

#include <pthread.h>
#include <sched.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "libs/base/clock.h"

namespace adaptdl::elastic {
namespace {

// Fails every step of writing once `cancelled` is set.
CheckpointStore::Options Cancellable(CheckpointStore::Options options, const std::atomic<bool>* cancelled) {
  options.before_step = [cancelled, inner = std::move(options.before_step)](absl::string_view step) {
    if (*cancelled) return absl::CancelledError("this replica may not write any more");
    return inner ? inner(step) : absl::OkStatus();
  };
  return options;
}

// When all processors are busy, a thread that is woken may take the place of the one that woke it, which is
// the training thread with a snapshot to hand over. One of this kind does not, and has as much time
// otherwise.
void StayBehindTraining() {
#ifdef SCHED_BATCH
  const sched_param parameters = {};
  // Where that is not allowed, all is as usual.
  (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &parameters);
#endif
}

}  // namespace

CheckpointWriter::CheckpointWriter(CheckpointStore::Options options, OnDone on_done)
    : store_(Cancellable(std::move(options), &cancelled_)),
      on_done_(std::move(on_done)),
      thread_([this] { Run(); }) {}

CheckpointWriter::~CheckpointWriter() {
  {
    MutexLock lock(&mutex_);
    ending_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

StateMap CheckpointWriter::TakeBuffers() {
  MutexLock lock(&mutex_);
  if (free_.empty()) return {};
  StateMap buffers = std::move(free_.back());
  free_.pop_back();
  return buffers;
}

void CheckpointWriter::Submit(StateMap states, int64_t step) {
  MutexLock lock(&mutex_);
  if (next_) free_.push_back(std::move(next_->states));
  next_ = Snapshot{std::move(states), step};
  changed_.SignalAll();
}

bool CheckpointWriter::busy() const {
  MutexLock lock(&mutex_);
  return writing_ || next_.has_value();
}

absl::Status CheckpointWriter::Await(absl::Duration timeout) {
  const absl::Time deadline = SteadyNow() + timeout;
  MutexLock lock(&mutex_);
  while (!cancelled_ && (writing_ || next_)) {
    const absl::Duration left = deadline - SteadyNow();
    if (left <= absl::ZeroDuration())
      return absl::DeadlineExceededError("a checkpoint is still being written");
    changed_.WaitFor(&mutex_, left);
  }
  if (cancelled_) return absl::CancelledError("this replica may not write any more");
  return latest_;
}

void CheckpointWriter::Cancel() {
  MutexLock lock(&mutex_);
  cancelled_ = true;
  changed_.SignalAll();
}

void CheckpointWriter::Run() {
  StayBehindTraining();
  for (;;) {
    Snapshot snapshot;
    {
      MutexLock lock(&mutex_);
      while (!next_ && !ending_) changed_.Wait(&mutex_);
      if (!next_) return;
      snapshot = *std::move(next_);
      next_.reset();
      writing_ = true;
    }
    const absl::StatusOr<int64_t> version = store_.Save(snapshot.states);
    on_done_(snapshot.step, version);
    MutexLock lock(&mutex_);
    writing_ = false;
    latest_ = version.status();
    free_.push_back(std::move(snapshot.states));
    changed_.SignalAll();
  }
}

}  // namespace adaptdl::elastic
