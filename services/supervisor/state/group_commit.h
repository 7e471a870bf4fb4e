// What was committed together reaches the disk together: changes are written to the store one by one, and
// while one sync of the disk goes on, those that come meanwhile wait for the next, which serves all of them.
// So the rate of changes is not bounded by the disk's syncs, of which a spinning or virtual one does some two
// hundred a second.
//
// Nobody outside learns of a change before it is durable: answers, commands and news are handed to
// WhenDurable(), in the order in which they came about. A sync that fails can't be repeated with any meaning
// (the kernel may have dropped what it could not write): nothing runs after it, and `on_failure` ends the
// program; the next one reads what there is.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_STATE_GROUP_COMMIT_H_
#define ADAPTDL_SERVICES_SUPERVISOR_STATE_GROUP_COMMIT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"

namespace adaptdl::supervisor {

class GroupCommit {
 public:
  // `sync` brings to the disk what was committed before it was called. None: commits are durable by
  // themselves, and there is no thread.
  GroupCommit(std::function<absl::Status()> sync, std::function<void(const absl::Status&)> on_failure);
  // Syncs what is left, and runs what waits for it.
  ~GroupCommit();

  // Something was committed.
  void Committed();

  // Runs `action` when everything that was committed before this call is durable: here and now if it is, else
  // on a thread of its own. Actions run one after the other, in the order of the calls; they must not wait.
  void WhenDurable(std::function<void()> action);

  // Actions that wait.
  size_t waiting() const;
  // Hears how long each sync takes that begins from now on.
  void SetOnSync(std::function<void(absl::Duration)> on_sync);

 private:
  void Run();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::function<absl::Status()> sync_;
  const std::function<void(const absl::Status&)> on_failure_;
  mutable Mutex mutex_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // Numbers of commits.
  uint64_t committed_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t durable_ ABSL_GUARDED_BY(mutex_) = 0;
  // Whether actions are being run; others must not overtake them.
  bool running_actions_ ABSL_GUARDED_BY(mutex_) = false;
  // With the number of the commit that each waits for; ascending.
  std::deque<std::pair<uint64_t, std::function<void()>>> actions_ ABSL_GUARDED_BY(mutex_);
  std::function<void(absl::Duration)> on_sync_ ABSL_GUARDED_BY(mutex_) = [](absl::Duration) {};
  std::thread thread_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_STATE_GROUP_COMMIT_H_
