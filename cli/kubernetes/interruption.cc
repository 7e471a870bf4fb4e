#include "cli/kubernetes/interruption.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include <array>
#include <cerrno>

namespace adaptdl::cli {

Interruption::Interruption() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, &before_);
  signals_.Reset(signalfd(-1, &signals, SFD_CLOEXEC));
  over_.Reset(eventfd(0, EFD_CLOEXEC));
  thread_ = std::thread([this] { Listen(); });
}

Interruption::~Interruption() {
  eventfd_write(over_.get(), 1);
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void Interruption::Listen() {
  std::array<pollfd, 2> files = {pollfd{over_.get(), POLLIN, 0}, pollfd{signals_.get(), POLLIN, 0}};
  while (true) {
    if (poll(files.data(), files.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    if (files[0].revents != 0) return;
    signalfd_siginfo info;
    if (read(signals_.get(), &info, sizeof(info)) != sizeof(info)) return;
    signal_ = static_cast<int>(info.ssi_signo);
    stop_.request_stop();
  }
}

}  // namespace adaptdl::cli
