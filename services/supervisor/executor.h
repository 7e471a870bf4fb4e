// Threads for what may wait for the state's lock or for the disk, so that gRPC's own few threads never do:
// they carry the heartbeats, which so have a lane of their own however busy the rest is. First come, first
// served.
//
// Thread-safe.

#ifndef ADAPTDL_SERVICES_SUPERVISOR_EXECUTOR_H_
#define ADAPTDL_SERVICES_SUPERVISOR_EXECUTOR_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "libs/base/mutex.h"
#include "services/supervisor/invariants.h"

namespace adaptdl::supervisor {

class Executor {
 public:
  // `invariants` outlives it, and hears of tasks that throw.
  Executor(int threads, Invariants* invariants);
  // Runs what is left.
  ~Executor();

  void Post(std::function<void()> task);

  // Tasks that wait.
  size_t waiting() const;

  Invariants* invariants() const { return invariants_; }

 private:
  void Run();

  Invariants* const invariants_;
  mutable Mutex mutex_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

}  // namespace adaptdl::supervisor

#endif  // ADAPTDL_SERVICES_SUPERVISOR_EXECUTOR_H_
