#include "libs/elastic/host/signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <functional>
#include <string>
#include <utility>

namespace adaptdl::elastic {
namespace {

// A signal handler reaches nothing but globals: where it writes the signal's number to.
std::atomic<int> g_write_end{-1};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void HandleSignal(int signal) {
  const int saved_errno = errno;
  if (signal == SIGINT) std::signal(SIGINT, SIG_DFL);  // NOLINT(bugprone-signal-handler): async-signal-safe
  const auto byte = static_cast<char>(signal);
  const ssize_t written = write(g_write_end.load(), &byte, 1);
  (void)written;
  errno = saved_errno;
}

void Install(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

}  // namespace

SignalWatcher::SignalWatcher(std::function<void(const std::string&)> on_signal)
    : on_signal_(std::move(on_signal)) {
  if (pipe2(pipe_, O_CLOEXEC) != 0) {
    pipe_[0] = pipe_[1] = -1;
    return;
  }
  g_write_end = pipe_[1];
  thread_ = std::thread([this] { Run(); });
  Install(SIGTERM, HandleSignal);
  Install(SIGINT, HandleSignal);
}

SignalWatcher::~SignalWatcher() {
  if (pipe_[0] < 0) return;
  Install(SIGTERM, SIG_DFL);
  Install(SIGINT, SIG_DFL);
  g_write_end = -1;
  const char end = 0;
  const ssize_t written = write(pipe_[1], &end, 1);
  (void)written;
  thread_.join();
  close(pipe_[0]);
  close(pipe_[1]);
}

void SignalWatcher::Run() {
  for (;;) {
    char byte = 0;
    const ssize_t got = read(pipe_[0], &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got != 1 || byte == 0) return;
    on_signal_(byte == SIGTERM ? "SIGTERM" : "SIGINT");
  }
}

}  // namespace adaptdl::elastic
