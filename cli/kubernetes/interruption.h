// Ctrl-C, SIGTERM and SIGHUP as a stop request, for commands that must clean up in a cluster before they end.
//
//   Interruption interruption;
//   ... Work(interruption.token()) ...; CleanUp({});
//   if (interruption.signal() != 0) return 128 + interruption.signal();
//
// To be made before other threads, which then leave these signals to it; one at a time. Owns a thread.

#ifndef ADAPTDL_CLI_KUBERNETES_INTERRUPTION_H_
#define ADAPTDL_CLI_KUBERNETES_INTERRUPTION_H_

#include <signal.h>

#include <atomic>
#include <stop_token>
#include <thread>

#include "libs/base/unique_fd.h"

namespace adaptdl::cli {

class Interruption {
 public:
  Interruption();
  // Signals do again what they did.
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  std::stop_token token() const { return stop_.get_token(); }
  // The one that came. 0: none.
  int signal() const { return signal_; }

 private:
  void Listen();

  sigset_t before_;
  UniqueFd signals_;
  // Becomes readable when nobody waits for signals any more.
  UniqueFd over_;
  std::stop_source stop_;
  std::atomic<int> signal_ = 0;
  std::thread thread_;
};

}  // namespace adaptdl::cli

#endif  // ADAPTDL_CLI_KUBERNETES_INTERRUPTION_H_
