// Where the node's slow work is done: what may wait for a disk, for the storage that all nodes share, or for
// a process to start, and so for ever. Whoever answers the supervisor posts it here and goes on.
//
// Work of one lane (a replica) is done one after the other, in the order in which it was posted; lanes don't
// wait for each other, as long as fewer than `max_threads` of them hang.

#ifndef ADAPTDL_SERVICES_WORKER_WORK_LANES_H_
#define ADAPTDL_SERVICES_WORKER_WORK_LANES_H_

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "libs/base/mutex.h"

namespace adaptdl::worker {

class WorkLanes {
 public:
  virtual ~WorkLanes() = default;
  // Thread-safe; called without locks that the work takes.
  virtual void Post(const std::string& lane, std::function<void()> work) = 0;
};

// Threads are made as they are needed, and kept. Thread-safe.
class ThreadLanes final : public WorkLanes {
 public:
  explicit ThreadLanes(int max_threads) : max_threads_(max_threads) {}
  // As Finish().
  ~ThreadLanes() override;

  void Post(const std::string& lane, std::function<void()> work) override;

  // Does what was posted, and nothing that is posted later. Idempotent.
  void Finish();

 private:
  void Run();

  const size_t max_threads_;
  Mutex mutex_;
  CondVar wake_;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  // Work that is waiting, by lane. A lane that is being worked on is there, if only as an empty list.
  std::map<std::string, std::deque<std::function<void()>>> lanes_ ABSL_GUARDED_BY(mutex_);
  // Lanes with work that no thread is at.
  std::deque<std::string> ready_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_WORK_LANES_H_
