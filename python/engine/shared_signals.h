// SIGTERM and SIGINT as a callback on a thread of its own, in a process whose interpreter has handlers too
// (interpreter_host.h says who gets what). These handlers are what was installed before, and stay it afterwards.
//
// Thread-safety: Start(), Stop() and Forget() one at a time; the others from any thread. One object per process.

#ifndef ADAPTDL_PYTHON_ENGINE_SHARED_SIGNALS_H_
#define ADAPTDL_PYTHON_ENGINE_SHARED_SIGNALS_H_

#include <functional>
#include <string>
#include <thread>

namespace adaptdl::python {

class SharedSignals {
 public:
  SharedSignals() = default;
  ~SharedSignals() { Stop(); }
  SharedSignals(const SharedSignals&) = delete;
  SharedSignals& operator=(const SharedSignals&) = delete;

  // `on_signal` gets the signal's name, on the watching thread.
  void Start(std::function<void(const std::string& name)> on_signal);
  void Stop();
  // In a forked child, which has no watching thread: as Stop().
  void Forget();

  // Whether the training thread is where it would not notice an interpreter's handler. Gives what was so before.
  bool SetNative(bool native);
  // From now on the first SIGINT asks for a stop.
  void SetMet();

 private:
  void Run();
  void Restore();

  std::function<void(const std::string&)> on_signal_;
  int pipe_[2] = {-1, -1};
  std::thread thread_;
};

// For a process that works for this one, such as one that reads its data: from now on it ends by SIGTERM and SIGINT only if
// its parent sends them. What stops a replica goes to all its processes, and the replica still has a step to finish.
void IgnoreStopsOfOthers();

}  // namespace adaptdl::python

#endif  // ADAPTDL_PYTHON_ENGINE_SHARED_SIGNALS_H_
