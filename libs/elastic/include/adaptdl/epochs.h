// The epoch loop of a job that may be stopped and started again:
//
//   for (int epoch : adaptdl::RemainingEpochsUntil(*job, 90)) { ... }
//
// runs the epochs from the first unfinished one to 89. An epoch that was interrupted is entered again; its
// data loader loops that were finished are then skipped, and the interrupted one goes on where it stopped
// (see data_loader.h). An epoch left by break counts as finished.
//
// Thread-safety: the training thread only.

#ifndef ADAPTDL_EPOCHS_H_
#define ADAPTDL_EPOCHS_H_

#include <optional>

#include "adaptdl/job.h"

namespace adaptdl {

class EpochRange {
 public:
  struct End {};

  class Iterator {
   public:
    Iterator(Job* job, int epochs);
    ~Iterator();
    Iterator(const Iterator&) = delete;
    Iterator& operator=(const Iterator&) = delete;

    int operator*() const;
    Iterator& operator++();
    bool operator!=(End) const { return running_; }

   private:
    Job* const job_;
    const int epochs_;
    // Whether an epoch is in progress.
    bool running_ = false;
  };

  EpochRange(Job* job, int epochs) : job_(job), epochs_(epochs) {}
  Iterator begin() const { return Iterator(job_, epochs_); }
  End end() const { return {}; }

 private:
  Job* const job_;
  const int epochs_;
};

// The epoch in progress. Nothing: outside the epoch loop.
std::optional<int> CurrentEpoch(Job& job);

// Epochs done; within the epoch loop this is the number of the one in progress.
inline int FinishedEpochs(const Job& job) { return job.finished_epochs(); }

inline EpochRange RemainingEpochsUntil(Job& job, int epochs) { return EpochRange(&job, epochs); }

}  // namespace adaptdl

#endif  // ADAPTDL_EPOCHS_H_
