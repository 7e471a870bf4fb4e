// Reaps orphans where the worker is process 1 of a container: whatever loses its parent there becomes its
// child.
//
// Must not be used in a process that waits for children of its own by waitpid() and needs their status.

#ifndef ADAPTDL_SERVICES_WORKER_CHILD_REAPER_H_
#define ADAPTDL_SERVICES_WORKER_CHILD_REAPER_H_

#include <atomic>
#include <thread>

namespace adaptdl::worker {

class ChildReaper {
 public:
  ChildReaper();
  ~ChildReaper();

  // To be called before any thread is made.
  static void BlockSignal();

 private:
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace adaptdl::worker

#endif  // ADAPTDL_SERVICES_WORKER_CHILD_REAPER_H_
