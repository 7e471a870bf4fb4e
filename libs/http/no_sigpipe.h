// Keeps the calling thread from being sent SIGPIPE, which OpenSSL causes where it writes to a connection that
// the peer has closed: the write says so as well.
//
//   const NoSigpipe guard;
//
// Thread-safe: the signal is sent to the thread that writes, and no other thread's mask is touched.

#ifndef ADAPTDL_LIBS_HTTP_NO_SIGPIPE_H_
#define ADAPTDL_LIBS_HTTP_NO_SIGPIPE_H_

#include <csignal>
#include <ctime>

namespace adaptdl {

class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~NoSigpipe() {
    if (sigismember(&before_, SIGPIPE) == 1) return;
    // One that came meanwhile must not be delivered now.
    const timespec at_once = {};
    while (sigtimedwait(&sigpipe_, nullptr, &at_once) == SIGPIPE) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t sigpipe_;
  sigset_t before_;
};

}  // namespace adaptdl

#endif  // ADAPTDL_LIBS_HTTP_NO_SIGPIPE_H_
