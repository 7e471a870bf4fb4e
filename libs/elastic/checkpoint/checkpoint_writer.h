// Writes checkpoints in a thread of its own, so that training waits only until its state is copied.
//
//   StateMap snapshot = writer.TakeBuffers();     // memory of an earlier one, to be filled again
//   ...
//   writer.Submit(std::move(snapshot), step);     // returns at once
//
// One snapshot is written at a time and one more may wait; a newer one takes its place. So there are two of
// them in memory at most, besides the training's own state.
//
// Thread-safety: thread-safe. `on_done` is called by the writing thread.

#ifndef ADAPTDL_LIBS_ELASTIC_CHECKPOINT_CHECKPOINT_WRITER_H_
#define ADAPTDL_LIBS_ELASTIC_CHECKPOINT_CHECKPOINT_WRITER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/elastic/checkpoint/checkpoint_store.h"

namespace adaptdl::elastic {

class CheckpointWriter {
 public:
  // Told how the snapshot of `step` ended: with a version of the store, or why not.
  using OnDone = std::function<void(int64_t step, const absl::StatusOr<int64_t>& version)>;

  CheckpointWriter(CheckpointStore::Options options, OnDone on_done);
  // Finishes what was submitted.
  ~CheckpointWriter();

  // Before the first Submit().
  absl::StatusOr<Checkpoint> LoadNewest() { return store_.LoadNewest(); }

  // Of what is submitted from now on.
  void SetGroup(int64_t group) { store_.SetGroup(group); }

  // States with any content; strings keep their memory. May be empty.
  StateMap TakeBuffers();

  // Non-blocking.
  void Submit(StateMap states, int64_t step);

  // Whether anything waits or is being written.
  bool busy() const;

  // Waits until nothing is. DEADLINE_EXCEEDED after `timeout`. CANCELLED at once after
  // Cancel(). Else how the latest snapshot ended.
  absl::Status Await(absl::Duration timeout);

  // Nothing is written any more, what is under way included, from the next step of writing on.
  void Cancel();

 private:
  struct Snapshot {
    StateMap states;
    int64_t step = 0;
  };

  void Run();

  std::atomic<bool> cancelled_{false};
  CheckpointStore store_;
  const OnDone on_done_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::optional<Snapshot> next_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status latest_ ABSL_GUARDED_BY(mutex_);
  // Snapshots that are done with, for their memory.
  std::vector<StateMap> free_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_CHECKPOINT_CHECKPOINT_WRITER_H_
