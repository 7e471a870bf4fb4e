// The optimiser step in progress: its samples, and how far it is.
//
//   Begin() ──▶ samples dealt out ──BeginExchange()──▶ on its way ──MarkExchanged()──▶ agreed on
//     ▲                 │                                  │                              │ MarkTaken()
//     │                 └───────────── Void() ◀────────────┘                              ▼
//     └──── Restart() ──── came to nothing                                  taken ── Close(), End()
//
// Thread-safety: the training thread only.

#ifndef ADAPTDL_LIBS_ELASTIC_JOB_STEP_IN_PROGRESS_H_
#define ADAPTDL_LIBS_ELASTIC_JOB_STEP_IN_PROGRESS_H_

#include <cstdint>
#include <utility>

#include "absl/status/status.h"

namespace adaptdl::elastic {

// The samples of the forward and backward pass in progress.
struct MicroBatch {
  // Those of this replica that count.
  int64_t local = 0;
  // Those of the whole optimiser step: of all replicas and all of its micro-batches. 0: no loop.
  int64_t step_total = 0;
  // Whether the gradients are exchanged and the optimiser runs after it.
  bool last = true;
  // Total batch size that was chosen, divided by the initial one; a short last batch does not change it.
  double scale = 1;
  int64_t initial_batch_size = 1;
  // How often this replica has begun the optimiser step anew (with smaller micro-batches, after a failure
  // of memory). What it had gathered of the step before is void.
  int attempt = 0;
};

class StepInProgress {
 public:
  void SetMicroBatch(const MicroBatch& micro_batch) { micro_batch_ = micro_batch; }
  const MicroBatch& micro_batch() const { return micro_batch_; }

  // A micro-batch of a data loader's loop begins.
  void Begin() {
    dealt_ = true;
    taken_ = false;
  }
  // The loop's step is complete; or the loop is over.
  void End() { dealt_ = false; }
  void EndLoop() { dealt_ = void_ = false; }

  // Something of this step is on its way to the other replicas; is there; is not going to be.
  void BeginExchange() { exchanging_ = true; }
  void MarkExchanged() { exchanged_ = true; }
  void AbandonExchange() { exchanging_ = false; }
  void ClearExchange() { exchanging_ = exchanged_ = false; }
  // Whether something has left this replica, and the step cannot begin anew.
  bool exchanging() const { return exchanging_ || exchanged_; }
  // Whether what a step agrees on has been exchanged.
  bool exchanged() const { return exchanged_; }

  // The exchange has failed; whoever comes to a collective first takes it from there.
  void NoteFailedExchange(const absl::Status& failure) { failure_ = failure; }
  absl::Status TakeFailure() { return std::exchange(failure_, absl::OkStatus()); }

  // A part of its results was applied, and cannot be taken back. False: that was so before, by another model.
  bool MarkTaken() { return !std::exchange(taken_, true); }
  bool taken() const { return taken_; }
  // What follows belongs to no step that was taken.
  void Close() {
    if (taken_) dealt_ = false;
    taken_ = false;
  }
  // Whether samples of a loop's step were dealt out of which nothing was applied yet.
  bool open() const { return dealt_ && !taken_; }

  // It came to nothing: the loop's body is to be run again on samples that are dealt out anew, and what it
  // does until then counts for nothing.
  void Void() {
    exchanging_ = false;
    void_ = true;
  }
  bool is_void() const { return void_; }
  // A new attempt begins.
  void Restart() { void_ = exchanging_ = exchanged_ = false; }

 private:
  MicroBatch micro_batch_;
  bool dealt_ = false;
  bool taken_ = false;
  bool void_ = false;
  bool exchanging_ = false;
  bool exchanged_ = false;
  absl::Status failure_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_JOB_STEP_IN_PROGRESS_H_
