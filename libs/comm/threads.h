// Signals and the threads of libs/comm. Inside libs/comm only.

#ifndef ADAPTDL_LIBS_COMM_THREADS_H_
#define ADAPTDL_LIBS_COMM_THREADS_H_

#include <csignal>
#include <ctime>

namespace adaptdl::comm {

// While it lives, this thread and those that it starts take no signals: they belong to the program's own
// threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// While it lives, writing to a connection that the peer has closed does not end the process (Gloo does not
// ask for that itself). What such a write left behind is taken away at the end.
class BrokenPipesIgnored {
 public:
  BrokenPipesIgnored() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~BrokenPipesIgnored() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    const timespec none{};
    while (sigtimedwait(&pipe_, nullptr, &none) == SIGPIPE) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  BrokenPipesIgnored(const BrokenPipesIgnored&) = delete;
  BrokenPipesIgnored& operator=(const BrokenPipesIgnored&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
};

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_THREADS_H_
