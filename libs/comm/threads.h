// Signals and the threads of libs/comm. Inside libs/comm only.

#ifndef ADAPTDL_LIBS_COMM_THREADS_H_
#define ADAPTDL_LIBS_COMM_THREADS_H_

#include <csignal>

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

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_THREADS_H_
