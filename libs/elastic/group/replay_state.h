// Where the program is in its epochs and data loader loops: what a restart needs to go on from there.
//
// The program runs its code again from the start of the interrupted epoch. Within an epoch, loops over data
// loaders are counted by position (0, 1, ...). Each loader remembers the position of the last loop it
// finished: a loop whose position is not beyond that was done before the restart, and is skipped.
//
// Thread-safety: not thread-safe.

#ifndef ADAPTDL_LIBS_ELASTIC_GROUP_REPLAY_STATE_H_
#define ADAPTDL_LIBS_ELASTIC_GROUP_REPLAY_STATE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace adaptdl::elastic {

struct LoaderRecord {
  // Epoch that index and last_position belong to; -1 outside epochs.
  int epoch = -1;
  // Epoch that the loader was made in; -1 outside epochs.
  int created_epoch = -1;
  // Samples of the pass that the interrupted loop has consumed.
  int64_t index = 0;
  // Position of the last finished loop of the epoch. -1: none.
  int64_t last_position = -1;
  // Passes over the data set that the interrupted loop has completed.
  int64_t pass = 0;
  // Progress of the job, in steps at the initial batch size, when the interrupted loop began. Negative: none
  // is interrupted.
  double begin = -1;
};

struct AccumulatorRecord {
  int created_epoch = -1;
  std::map<std::string, double> totals;
  // Totals as each Synchronize() of the epoch gave them.
  std::vector<std::map<std::string, double>> history;
  // Calls of Clear() in the epoch, outside data loader loops.
  int clears = 0;
  // Epoch that history and clears belong to.
  int history_epoch = -1;
};

class ReplayState {
 public:
  int finished_epochs() const { return finished_epochs_; }
  // -1: outside the epoch loop.
  int current_epoch() const { return in_epoch_ ? finished_epochs_ : -1; }

  void EnterEpoch();
  void FinishEpoch();
  // An epoch loop that has nothing left to do.
  void PassEpochs();

  // Whether the program is still running code, outside of data loader loops, that ran before the restart.
  bool replaying() const { return resume_.has_value(); }

  // Names for the objects of the program, by order of creation within the epoch.
  std::string NewLoaderName();
  // Of the loader that was made last: its name without the number of the epoch.
  std::string LastLoaderKind() const;
  std::string NewAccumulatorName();

  // False: the loop was finished before the restart, and is counted as passed.
  bool BeginLoop(const std::string& loader);
  void FinishLoop(const std::string& loader);
  bool in_loop() const { return in_loop_; }

  LoaderRecord& loader(const std::string& name) { return loaders_[name]; }

  // Samples that one replica's memory can hold at once, for loaders of this kind. Kept from epoch to epoch.
  // 0: not known.
  int64_t& MemoryBound(const std::string& kind) { return memory_bounds_[kind]; }
  AccumulatorRecord& accumulator(const std::string& name);

  std::string Save() const;
  // DATA_LOSS: `text` is not what Save() gives.
  absl::Status Load(const std::string& text);

 private:
  // Where in the program a checkpoint was taken.
  struct Place {
    bool in_epoch = false;
    // Loops begun and finished in the epoch, or outside epochs.
    int64_t position = 0;
    bool in_loop = false;
  };

  // Ends the replay if the program is where the checkpoint was taken.
  void MaybeResume();

  // Of the restored checkpoint. Absent: the program has come that far.
  std::optional<Place> resume_;
  int finished_epochs_ = 0;
  bool in_epoch_ = false;
  bool in_loop_ = false;
  // Loops begun in this epoch since the process started.
  int64_t position_ = 0;
  int loaders_made_ = 0;
  int accumulators_made_ = 0;
  std::map<std::string, LoaderRecord> loaders_;
  std::map<std::string, AccumulatorRecord> accumulators_;
  std::map<std::string, int64_t> memory_bounds_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_GROUP_REPLAY_STATE_H_
