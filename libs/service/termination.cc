#include "libs/service/termination.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>

#include "libs/base/file.h"

namespace adaptdl::service {
namespace {

sigset_t TerminationSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

// Libraries may have made threads before main() (OpenBLAS does), which have blocked nothing: a signal that
// reaches one of them would end the process. It blocks the signals there, and sends this one on.
void PassOn(int signal, siginfo_t* /*info*/, void* context) {
  const int error = errno;
  auto* interrupted = static_cast<ucontext_t*>(context);
  sigaddset(&interrupted->uc_sigmask, SIGTERM);
  sigaddset(&interrupted->uc_sigmask, SIGINT);
  kill(getpid(), signal);
  errno = error;
}

}  // namespace

void BlockTerminationSignals() {
  const sigset_t signals = TerminationSignals();
  struct sigaction action {};
  action.sa_sigaction = PassOn;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  action.sa_mask = signals;
  for (const int signal : {SIGTERM, SIGINT}) sigaction(signal, &action, nullptr);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

absl::StatusOr<std::unique_ptr<Termination>> Termination::Create() {
  BlockTerminationSignals();
  const sigset_t signals = TerminationSignals();
  const int signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signal_fd < 0) return ErrnoStatus(errno, "signalfd");
  const int request_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (request_fd < 0) {
    const int error = errno;
    close(signal_fd);
    return ErrnoStatus(error, "eventfd");
  }
  return std::unique_ptr<Termination>(new Termination(signal_fd, request_fd));
}

Termination::~Termination() {
  close(signal_fd_);
  close(request_fd_);
}

std::string Termination::Wait() {
  while (true) {
    pollfd descriptors[] = {{signal_fd_, POLLIN, 0}, {request_fd_, POLLIN, 0}};
    if (poll(descriptors, 2, -1) < 0) continue;  // EINTR
    // The event is left in the descriptor: it stands for all later waits, too.
    if (descriptors[1].revents != 0) return "request";
    signalfd_siginfo signal;
    if (read(signal_fd_, &signal, sizeof(signal)) != sizeof(signal)) continue;  // another waiter was faster
    return signal.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT";
  }
}

void Termination::Request() {
  // Fails only when the counter is full, and then the event is there already.
  [[maybe_unused]] const int result = eventfd_write(request_fd_, 1);
}

}  // namespace adaptdl::service
