// Threads for what may wait for the state's lock or for the disk, so that gRPC's own few threads never do:
// they carry the heartbeats, which so have a lane of their own however busy the rest is.
//
// Callers take turns, and of one caller only so many tasks run at a time: whoever asks for much waits for
// itself. Tasks of one caller begin in the order in which they came; so do those of nobody, which are the
// cluster's own: they have each second turn, and run as many at a time as there are threads.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_CALLS_EXECUTOR_H_
#define ADAPTDL_SERVICES_SUPERVISOR_CALLS_EXECUTOR_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "libs/base/mutex.h"
#include "services/supervisor/state/invariants.h"

namespace adaptdl::supervisor {

class Executor {
 public:
  // `invariants` outlives it, and hears of tasks that throw. `per_caller`: tasks of one caller that run at a
  // time, at least one.
  Executor(int threads, int per_caller, Invariants* invariants);
  // Runs what is left.
  ~Executor();

  // A task of the cluster's own.
  void Post(std::function<void()> task) { Post("", std::move(task)); }
  // A task of a caller. Empty: of nobody.
  void Post(const std::string& caller, std::function<void()> task);

  // Tasks that wait.
  size_t waiting() const;

  Invariants* invariants() const { return invariants_; }

 private:
  struct Lane {
    std::deque<std::function<void()>> tasks;
    int running = 0;
    // Whether it is in turns_.
    bool listed = false;
  };

  void Run();
  // Puts the lane at the end of the turns if a task of it may run.
  void List(const std::string& caller, Lane* lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The next task, and whose it is. There is one.
  std::function<void()> Take(std::string* caller) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A task of the caller has ended.
  void Ended(const std::string& caller) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int per_caller_;
  Invariants* const invariants_;
  mutable Mutex mutex_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<std::function<void()>> own_ ABSL_GUARDED_BY(mutex_);
  // Whether the cluster's own tasks had the last turn.
  bool own_turn_ ABSL_GUARDED_BY(mutex_) = false;
  // By caller: those with tasks that wait or run.
  std::unordered_map<std::string, Lane> lanes_ ABSL_GUARDED_BY(mutex_);
  // Callers of which a task may run.
  std::deque<std::string> turns_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_CALLS_EXECUTOR_H_
