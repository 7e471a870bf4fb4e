#include "python/engine/shared_signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <functional>
#include <string>
#include <utility>

namespace adaptdl::python {
namespace {

// A signal handler reaches nothing but globals.
struct HandlerState {
  // Where it writes the signal's number to. Negative: nobody watches.
  std::atomic<int> write_end{-1};
  std::atomic<bool> native{false};
  std::atomic<bool> met{false};
  std::atomic<bool> interrupted{false};
  // What was there before. Set while nobody watches.
  struct sigaction earlier_term = {};
  struct sigaction earlier_int = {};
};
HandlerState g_state;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

// Passes the signal on, unless what was there is the kernel's own.
void CallEarlier(const struct sigaction& earlier, int signal, siginfo_t* info, void* context) {
  if ((earlier.sa_flags & SA_SIGINFO) != 0) {
    earlier.sa_sigaction(signal, info, context);
  } else if (earlier.sa_handler != SIG_DFL && earlier.sa_handler != SIG_IGN) {
    earlier.sa_handler(signal);
  }
}

void Pass(int signal) {
  const int fd = g_state.write_end;
  if (fd < 0) return;
  const auto byte = static_cast<char>(signal);
  const ssize_t written = write(fd, &byte, 1);
  (void)written;
}

extern "C" void HandleSharedSignal(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  if (signal == SIGTERM) {
    Pass(signal);
    CallEarlier(g_state.earlier_term, signal, info, context);
  } else if (!g_state.met && !g_state.native) {
    CallEarlier(g_state.earlier_int, signal, info, context);
  } else if (!g_state.interrupted.exchange(true)) {
    Pass(signal);
  } else if (g_state.native) {
    // When the handler returns.
    std::signal(SIGINT, SIG_DFL);  // NOLINT(bugprone-signal-handler): async-signal-safe
    raise(SIGINT);
  } else {
    CallEarlier(g_state.earlier_int, signal, info, context);
  }
  errno = saved_errno;
}

extern "C" void HandleSignalOfWorker(int signal, siginfo_t* info, void* /*context*/) {
  if (info->si_pid != getppid()) return;
  // When the handler returns.
  std::signal(signal, SIG_DFL);  // NOLINT(bugprone-signal-handler): async-signal-safe
  raise(signal);
}

void Install(int signal, struct sigaction* earlier) {
  struct sigaction action = {};
  action.sa_sigaction = HandleSharedSignal;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  // Without SA_RESTART if the interpreter has it so: its waits are to notice.
  sigaction(signal, nullptr, earlier);
  if ((earlier->sa_flags & SA_RESTART) == 0) action.sa_flags &= ~SA_RESTART;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void SharedSignals::Start(std::function<void(const std::string&)> on_signal) {
  if (pipe_[0] >= 0 || pipe2(pipe_, O_CLOEXEC) != 0) return;
  on_signal_ = std::move(on_signal);
  g_state.write_end = pipe_[1];
  thread_ = std::thread([this] { Run(); });
  Install(SIGTERM, &g_state.earlier_term);
  Install(SIGINT, &g_state.earlier_int);
}

void SharedSignals::Restore() {
  sigaction(SIGTERM, &g_state.earlier_term, nullptr);
  sigaction(SIGINT, &g_state.earlier_int, nullptr);
  g_state.write_end = -1;
  g_state.met = g_state.interrupted = false;
}

void SharedSignals::Stop() {
  if (pipe_[0] < 0) return;
  Restore();
  const char end = 0;
  const ssize_t written = write(pipe_[1], &end, 1);
  (void)written;
  thread_.join();
  close(std::exchange(pipe_[0], -1));
  close(std::exchange(pipe_[1], -1));
}

void SharedSignals::Forget() {
  if (pipe_[0] < 0) return;
  Restore();
  close(std::exchange(pipe_[0], -1));
  close(std::exchange(pipe_[1], -1));
  // The thread is the parent's.
  thread_.detach();
}

bool SharedSignals::SetNative(bool native) { return g_state.native.exchange(native); }

void SharedSignals::SetMet() { g_state.met = true; }

void IgnoreStopsOfOthers() {
  struct sigaction action = {};
  action.sa_sigaction = HandleSignalOfWorker;
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

void SharedSignals::Run() {
  // Stop() and Forget() change the member.
  const int read_end = pipe_[0];
  for (;;) {
    char byte = 0;
    const ssize_t got = read(read_end, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got != 1 || byte == 0) return;
    on_signal_(byte == SIGTERM ? "SIGTERM" : "SIGINT");
  }
}

}  // namespace adaptdl::python
