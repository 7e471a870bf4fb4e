// An interpreter as the process that the library lives in: its end is an exception of the training thread, and its
// signals are shared with the interpreter.
//
//   SIGTERM   asks for a stop, and goes on to the interpreter's own handler.
//   SIGINT    the first asks for a stop, once the replicas have met. The second, and before that every one, goes on to the
//             interpreter, which raises KeyboardInterrupt; where the training thread waits in here, and would not notice,
//             it ends the process.
//
// Thread-safety: as Host; scopes are for the training thread.

#ifndef ADAPTDL_PYTHON_ENGINE_INTERPRETER_HOST_H_
#define ADAPTDL_PYTHON_ENGINE_INTERPRETER_HOST_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "libs/elastic/host/host.h"
#include "python/engine/shared_signals.h"

namespace adaptdl::python {

// Thrown at the process's end.
struct ProcessEnds {
  int code;
};

class InterpreterHost final : public elastic::Host {
 public:
  InterpreterHost();

  void Tell(const std::string& reason) override { reason_ = reason; }
  double Seconds() override { return process_->Seconds(); }
  double WallSeconds() override { return process_->WallSeconds(); }
  std::function<double()> ThreadClock() override { return process_->ThreadClock(); }
  std::unique_ptr<SignalWatch> WatchSignals(std::function<void(const std::string&)> on_signal) override;

  // Why the process ends.
  std::string TakeReason() { return std::exchange(reason_, ""); }
  void SayReason(int code);

  // The replicas have met. True: a stop was asked for before that.
  bool SetMet();
  // While the replicas meet, a stop ends the process: nothing is there to be saved, and they may never come.
  void SetMeeting(bool meeting) { meeting_ = meeting; }

  // In a forked child.
  void ForgetSignals() { signals_.Forget(); }

  // While it lives, the training thread is in the engine; or, within that, in the interpreter.
  class NativeScope {
   public:
    explicit NativeScope(InterpreterHost* host) : host_(host), before_(host->signals_.SetNative(true)) {}
    ~NativeScope() { host_->signals_.SetNative(before_); }
    NativeScope(const NativeScope&) = delete;
    NativeScope& operator=(const NativeScope&) = delete;

   private:
    InterpreterHost* const host_;
    const bool before_;
  };
  class InterpreterScope {
   public:
    explicit InterpreterScope(InterpreterHost* host)
        : host_(host), before_(host->signals_.SetNative(false)) {}
    ~InterpreterScope() { host_->signals_.SetNative(before_); }
    InterpreterScope(const InterpreterScope&) = delete;
    InterpreterScope& operator=(const InterpreterScope&) = delete;

   private:
    InterpreterHost* const host_;
    const bool before_;
  };

 private:
  class Watch;

  void End(int code) override { throw ProcessEnds{code}; }

  const std::shared_ptr<elastic::Host> process_;
  SharedSignals signals_;
  std::string reason_;
  std::atomic<bool> meeting_{false};
  std::atomic<bool> stopped_early_{false};
};

}  // namespace adaptdl::python

#endif  // ADAPTDL_PYTHON_ENGINE_INTERPRETER_HOST_H_
