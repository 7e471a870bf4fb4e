#include "libs/base/process/child_reaper.h"

#include <sys/wait.h>

#include <csignal>
#include <ctime>

namespace adaptdl {
namespace {

sigset_t ChildSignal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  return signals;
}

}  // namespace

void ChildReaper::BlockSignal() {
  const sigset_t signals = ChildSignal();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

ChildReaper::ChildReaper()
    : thread_([this] {
        const sigset_t signals = ChildSignal();
        const timespec period = {1, 0};
        while (!stopping_) {
          sigtimedwait(&signals, nullptr, &period);
          while (waitpid(-1, nullptr, WNOHANG) > 0) {
          }
        }
      }) {}

ChildReaper::~ChildReaper() {
  stopping_ = true;
  thread_.join();
}

}  // namespace adaptdl
