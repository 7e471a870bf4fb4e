// The process that the library lives in: how it ends, its signals and its clocks. ProcessHost() is a program
// of its own; an interpreter, or a test, can be another one.
//
// Thread-safety: thread-safe, unless a method says otherwise.

#ifndef ADAPTDL_LIBS_ELASTIC_HOST_HOST_H_
#define ADAPTDL_LIBS_ELASTIC_HOST_HOST_H_

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

#include "libs/base/say.h"

namespace adaptdl::elastic {

class Host {
 public:
  // Signals are passed on for as long as it lives.
  class SignalWatch {
   public:
    virtual ~SignalWatch() = default;
  };

  virtual ~Host() = default;

  // Ends the process with this code. Called by the training thread, and before the replicas have met also by
  // whatever thread calls what WatchSignals() was given.
  [[noreturn]] void Exit(int code) {
    End(code);
    std::abort();
  }

  // Says why the process is about to end. An interpreter may make an exception of it.
  virtual void Tell(const std::string& reason) { Say(Severity::kError, reason); }

  // Monotonic.
  virtual double Seconds() = 0;

  // What the wall shows: since 1970.
  virtual double WallSeconds() = 0;

  // Called by the training thread: a clock that tells any thread how long the calling one has run, in seconds
  // of processor time. Null: nobody can tell.
  virtual std::function<double()> ThreadClock() { return nullptr; }

  // From now on calls `on_signal` with the name of each signal that asks the process to end, from any one
  // thread. One at a time. Null: the host sees to its signals itself.
  virtual std::unique_ptr<SignalWatch> WatchSignals(
      // NOLINTNEXTLINE(performance-unnecessary-value-param): hosts that watch keep it
      std::function<void(const std::string& name)> /*on_signal*/) {
    return nullptr;
  }

 private:
  // Does not return, and runs no destructors of the program; it may throw, if whoever runs the thread ends
  // the process then.
  virtual void End(int code) = 0;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_HOST_HOST_H_
