#include "cli/kubernetes/port_forward.h"

#include <csignal>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "libs/base/backoff.h"
#include "libs/base/clock.h"
#include "libs/base/process/pipe.h"
#include "libs/base/process/wait.h"
#include "libs/http/pauses.h"

namespace adaptdl::cli {
namespace {

// Of a line that is looked at; kubectl's are short.
constexpr size_t kMaxLine = 4096;

}  // namespace

PortForward::PortForward(Kubectl kubectl, Options options)
    : kubectl_(std::move(kubectl)), options_(std::move(options)), port_(options_.local_port) {
  thread_ = std::jthread([this](const std::stop_token& stop) { Keep(stop); });
}

PortForward::~PortForward() {
  thread_.request_stop();
  thread_.join();
}

absl::StatusOr<int> PortForward::WaitForPort(absl::Duration timeout) {
  const absl::Time deadline = SteadyNow() + timeout;
  MutexLock lock(&mutex_);
  while (!has_listened_ && !is_over_) {
    if (SteadyNow() >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          "kubectl port-forward ", options_.target, " did not begin within ", absl::FormatDuration(timeout)));
    }
    changed_.WaitFor(&mutex_, deadline - SteadyNow());
  }
  if (!has_listened_) return why_;
  return port_;
}

absl::Status PortForward::Wait() {
  MutexLock lock(&mutex_);
  while (!is_over_) changed_.Wait(&mutex_);
  return why_;
}

void PortForward::Keep(const std::stop_token& stop) {
  // The child is this thread's, and ends with it at the latest.
  Backoff backoff(absl::Milliseconds(100), absl::Seconds(5));
  const RealPauses pauses;
  bool goes_on = true;
  while (goes_on) {
    RunOnce(stop);
    {
      const MutexLock lock(&mutex_);
      goes_on = has_listened_;
    }
    goes_on = goes_on && pauses.WaitFor(backoff.Next(), stop);
  }
  const MutexLock lock(&mutex_);
  is_over_ = true;
  if (why_.ok()) why_ = absl::UnavailableError("kubectl port-forward has ended without a word");
  changed_.SignalAll();
}

std::vector<std::string> PortForward::Arguments() {
  const MutexLock lock(&mutex_);
  return {"port-forward", "--address", options_.local_address, options_.target,
          absl::StrCat(port_ == 0 ? "" : absl::StrCat(port_), ":", options_.port)};
}

void PortForward::RunOnce(const std::stop_token& stop) {
  absl::StatusOr<Pipe> pipe = Pipe::Open();
  const absl::StatusOr<pid_t> child =
      pipe.ok() ? kubectl_.Start(options_.name_space, Arguments(), pipe->write_end.get()) : pipe.status();
  {
    const MutexLock lock(&mutex_);
    why_ = child.status();
    if (!child.ok()) return;
    child_ = *child;
  }
  pipe->write_end.Reset();
  const std::stop_callback kill_it(stop, [this] { Kill(); });
  std::string line;
  char c = 0;
  while (ReadSome(pipe->read_end.get(), &c, 1) == 1) {
    if (c != '\n') {
      if (line.size() < kMaxLine) line.push_back(c);
      continue;
    }
    TakeLine(std::exchange(line, ""));
  }
  TakeLine(line);
  Kill();  // it says nothing any more, and need not have ended
  WaitForChild(*child);
}

void PortForward::TakeLine(const std::string& line) {
  if (line.empty()) return;
  const MutexLock lock(&mutex_);
  absl::string_view rest = line;
  if (absl::ConsumePrefix(&rest, "Forwarding from ")) {
    // "127.0.0.1:40000 -> 7100"; of the first address, if there are several.
    const absl::string_view address = rest.substr(0, rest.find(' '));
    int port = 0;
    if (!absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) return;
    port_ = port;
    has_listened_ = true;
    changed_.SignalAll();
  } else if (!has_listened_) {
    why_ = absl::UnavailableError(absl::StrCat("kubectl port-forward ", options_.target, ": ", line));
  }
}

void PortForward::Kill() {
  const MutexLock lock(&mutex_);
  if (child_ != 0) kill(std::exchange(child_, 0), SIGKILL);
}

}  // namespace adaptdl::cli
