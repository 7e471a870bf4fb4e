// Reaps adopted children, as process 1 of a container has to (whatever loses its parent there becomes its
// child), and as a child subreaper does.
//
//   ChildReaper::BlockSignal();  // in main(), before any thread is made
//   const ChildReaper reaper;    // for as long as it is to go on
//
// It takes the exit status of any child, also from those who wait for it: WaitForChild() may then return
// nothing.

#ifndef ADAPTDL_LIBS_BASE_PROCESS_CHILD_REAPER_H_
#define ADAPTDL_LIBS_BASE_PROCESS_CHILD_REAPER_H_

#include <atomic>
#include <thread>

namespace adaptdl {

class ChildReaper {
 public:
  // Begins, on a thread of its own.
  ChildReaper();
  ~ChildReaper();
  ChildReaper(const ChildReaper&) = delete;
  ChildReaper& operator=(const ChildReaper&) = delete;

  // To be called before any thread is made.
  static void BlockSignal();

 private:
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_BASE_PROCESS_CHILD_REAPER_H_
