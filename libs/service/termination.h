// Waiting for the end: SIGTERM, SIGINT, or a request from within the process.
//
// Signals are blocked and read from a descriptor; threads that were there before are taught to block them by
// the first that reaches them. Child processes inherit the blocked mask: whoever spawns one must reset it in
// the child.

#ifndef ADAPTDL_LIBS_SERVICE_TERMINATION_H_
#define ADAPTDL_LIBS_SERVICE_TERMINATION_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace adaptdl::service {

// Blocks SIGTERM and SIGINT in this thread and in those it makes from now on. Call it before any of the
// program's own threads is made.
void BlockTerminationSignals();

// Thread-safe.
class Termination {
 public:
  // Blocks the signals as above.
  static absl::StatusOr<std::unique_ptr<Termination>> Create();
  ~Termination();
  Termination(const Termination&) = delete;
  Termination& operator=(const Termination&) = delete;

  // Blocks until a signal came or Request() was called; says which ("SIGTERM", "SIGINT", "request").
  std::string Wait();

  // Ends present and later Wait()s. Does not block.
  void Request();

 private:
  Termination(int signal_fd, int request_fd) : signal_fd_(signal_fd), request_fd_(request_fd) {}

  const int signal_fd_;
  const int request_fd_;
};

}  // namespace adaptdl::service

#endif  // ADAPTDL_LIBS_SERVICE_TERMINATION_H_
