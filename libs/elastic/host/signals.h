// SIGTERM and SIGINT as a callback, on a thread of its own.
//
// Thread-safety: one object per process at a time.

#ifndef ADAPTDL_LIBS_ELASTIC_HOST_SIGNALS_H_
#define ADAPTDL_LIBS_ELASTIC_HOST_SIGNALS_H_

#include <functional>
#include <string>
#include <thread>

namespace adaptdl::elastic {

class SignalWatcher {
 public:
  // Installs handlers from now on. `on_signal` gets the signal's name, on the watcher's thread; the first
  // SIGINT restores the default, so that the second one ends the process.
  explicit SignalWatcher(std::function<void(const std::string& name)> on_signal);
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

 private:
  void Run();

  const std::function<void(const std::string&)> on_signal_;
  int pipe_[2];
  std::thread thread_;
};

}  // namespace adaptdl::elastic

#endif  // ADAPTDL_LIBS_ELASTIC_HOST_SIGNALS_H_
