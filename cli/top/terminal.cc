#include "cli/top/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace adaptdl::cli {
namespace {

// Another screen, no cursor, no lines that go on in the next one; and back.
constexpr char kEnter[] = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
constexpr char kLeave[] = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l";

constexpr int kEnding[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGABRT, SIGSEGV,
                           SIGBUS, SIGFPE, SIGILL,  SIGSYS,  SIGXCPU};

// What the handlers of signals need; they may come at any time, on any thread.
struct Screen {
  volatile sig_atomic_t is_ours = 0;
  termios before = {};
  termios ours = {};
  int wake[2] = {-1, -1};
};
Screen screen;

void WriteAll(const char* text, size_t size) {
  while (size > 0) {
    const ssize_t written = write(STDOUT_FILENO, text, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text += written;
    size -= static_cast<size_t>(written);
  }
}

// These three call nothing that a handler of signals may not.
void Enter() {
  tcsetattr(STDIN_FILENO, TCSANOW, &screen.ours);
  WriteAll(kEnter, sizeof(kEnter) - 1);
  screen.is_ours = 1;
}

void Leave() {
  if (screen.is_ours == 0) return;
  screen.is_ours = 0;
  tcsetattr(STDIN_FILENO, TCSANOW, &screen.before);
  WriteAll(kLeave, sizeof(kLeave) - 1);
}

void WakeUp() {
  const int error = errno;
  const ssize_t ignored = write(screen.wake[1], "", 1);
  static_cast<void>(ignored);  // full: it wakes up anyway
  errno = error;
}

void Handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

// As if there were no handler, but for the screen.
void OnEnding(int signal) {
  Leave();
  Handle(signal, SIG_DFL, 0);
  raise(signal);
}

void OnResize(int /*signal*/) { WakeUp(); }

void OnStop(int signal) {
  const int error = errno;
  Leave();
  Handle(signal, SIG_DFL, 0);
  raise(signal);
  // Here it goes on.
  Handle(signal, OnStop, SA_NODEFER | SA_RESTART);
  Enter();
  WakeUp();
  errno = error;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Terminal>> Terminal::Open() {
  if (isatty(STDIN_FILENO) != 1 || isatty(STDOUT_FILENO) != 1 ||
      tcgetattr(STDIN_FILENO, &screen.before) != 0) {
    return absl::FailedPreconditionError(
        "adaptdl top fills a terminal, and this is none; --once prints it once");
  }
  if (screen.wake[0] < 0 && pipe2(screen.wake, O_CLOEXEC | O_NONBLOCK) != 0) {
    return absl::InternalError(absl::StrCat("can't make a pipe: ", std::strerror(errno)));
  }
  screen.ours = screen.before;
  screen.ours.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  screen.ours.c_cc[VMIN] = 1;
  screen.ours.c_cc[VTIME] = 0;
  for (const int signal : kEnding) Handle(signal, OnEnding, SA_NODEFER);
  Handle(SIGTSTP, OnStop, SA_NODEFER | SA_RESTART);
  Handle(SIGWINCH, OnResize, SA_RESTART);
  Enter();
  return absl::WrapUnique(new Terminal());
}

Terminal::~Terminal() {
  Leave();
  for (const int signal : kEnding) Handle(signal, SIG_DFL, 0);
  Handle(SIGTSTP, SIG_DFL, 0);
  Handle(SIGWINCH, SIG_DFL, 0);
}

TopSize Terminal::size() const {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {80, 24};
  return {size.ws_col, size.ws_row};
}

void Terminal::Draw(const std::vector<std::string>& lines) const {
  std::string text;
  for (size_t row = 0; row < lines.size(); ++row) {
    absl::StrAppend(&text, "\x1b[", row + 1, ";1H", lines[row], "\x1b[K");
  }
  absl::StrAppend(&text, "\x1b[J");
  WriteAll(text.data(), text.size());
}

std::optional<std::string> Terminal::Wait(absl::Duration longest) const {
  pollfd files[] = {{STDIN_FILENO, POLLIN, 0}, {screen.wake[0], POLLIN, 0}};
  const int ready = poll(files, 2, static_cast<int>(absl::ToInt64Milliseconds(longest)));
  if (ready <= 0) return "";
  char bytes[256];
  if (files[1].revents != 0) {
    while (read(screen.wake[0], bytes, sizeof(bytes)) > 0) {
    }
  }
  if (files[0].revents == 0) return "";
  const ssize_t count = read(STDIN_FILENO, bytes, sizeof(bytes));
  if (count < 0 && errno == EINTR) return "";
  if (count <= 0) return std::nullopt;
  return std::string(bytes, static_cast<size_t>(count));
}

void Terminal::Wake() const { WakeUp(); }

}  // namespace adaptdl::cli
