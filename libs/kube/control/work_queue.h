// Objects that are to be looked at, each once, however often they were added:
//
//              Add             Take              Done
//   (absent) ───────▶ ready ─────────▶ taken ─────────▶ (absent)
//                      ▲ │               │
//           its time   │ │    Retry      │  Add meanwhile: ready again at Done or Retry
//                   delayed ◀────────────┘
//
// Nobody is given an object that somebody else has taken: each is worked on by one thread at a time, and after
// the last Add() somebody looks at it once more. One that failed comes again after a pause that grows with each
// failure in a row.
//
//   while (const auto key = queue.Take(stop)) Reconcile(*key).ok() ? queue.Done(*key) : queue.Retry(*key);
//
// Thread-safe.

#ifndef ADAPTDL_LIBS_KUBE_CONTROL_WORK_QUEUE_H_
#define ADAPTDL_LIBS_KUBE_CONTROL_WORK_QUEUE_H_

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/mutex.h"
#include "libs/kube/json/object.h"

namespace adaptdl::kube {

struct WorkQueueOptions {
  absl::Duration first_pause = absl::Milliseconds(200);
  absl::Duration longest_pause = absl::Minutes(5);
};

class WorkQueue {
 public:
  // The clock outlives it.
  explicit WorkQueue(const Clock* clock, WorkQueueOptions options = {}) : clock_(*clock), options_(options) {}

  // Is ready at once, or when whoever has taken it gives it back.
  void Add(const ObjectKey& key);
  // Is ready after so long, or earlier if it is added for an earlier time.
  void AddAfter(const ObjectKey& key, absl::Duration delay);

  // Waits for one that is ready. Nothing: a stop was requested.
  std::optional<ObjectKey> Take(const std::stop_token& stop);
  // Nothing: none is ready.
  std::optional<ObjectKey> TryTake();

  // What was taken went well, or failed.
  void Done(const ObjectKey& key);
  void Retry(const ObjectKey& key);

  // How many are ready, and how many wait for their time.
  size_t ready() const;
  size_t delayed() const;

 private:
  struct Item {
    bool is_ready = false;
    bool is_taken = false;
    // Added while it was taken.
    bool is_due_again = false;
    // Nothing: it does not wait for its time.
    std::optional<absl::Time> due = std::nullopt;
    // In a row.
    int failures = 0;
  };

  std::optional<ObjectKey> TakeReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes ready whose time has come.
  void Ripen() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeReady(const ObjectKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Delay(const ObjectKey& key, absl::Time due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Undelay(const ObjectKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetUnlessUsed(const ObjectKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  const WorkQueueOptions options_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::map<ObjectKey, Item> items_ ABSL_GUARDED_BY(mutex_);
  // The keys of those that are ready, in turn, and of those that are delayed, by their time.
  std::deque<ObjectKey> ready_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<absl::Time, ObjectKey>> delayed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::kube

#endif  // ADAPTDL_LIBS_KUBE_CONTROL_WORK_QUEUE_H_
