#include "services/worker/environment/bounded_command.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "libs/base/process/environment.h"
#include "libs/base/process/pipe.h"
#include "libs/base/process/spawn.h"
#include "libs/base/process/wait.h"

namespace adaptdl::worker {
namespace {

constexpr size_t kKeptBytes = 4096;
// A message of a replica has 1000 bytes.
constexpr size_t kShownLines = 12;
constexpr size_t kShownBytes = 600;
constexpr absl::Duration kCheckPeriod = absl::Seconds(5);
// Where the kernel can't tell of the end of a process, it is asked for this often.
constexpr absl::Duration kLookPeriod = absl::Milliseconds(200);

void WriteAll(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nobody reads what it says
    text.remove_prefix(static_cast<size_t>(written));
  }
}

// The last lines of what a program wrote, as an error shows them.
std::string LastLines(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (text.size() > kShownBytes) text = text.substr(text.size() - kShownBytes);
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n', absl::SkipWhitespace());
  if (lines.size() > kShownLines) lines.erase(lines.begin(), lines.end() - kShownLines);
  return absl::StrJoin(lines, "\n");
}

class Run {
 public:
  Run(const BoundedCommand& command, const Clock& clock) : command_(command), clock_(clock) {}

  absl::StatusOr<std::string> ToTheEnd() {
    if (absl::Status status = Start(); !status.ok()) return status;
    next_check_ = clock_.Steady() + kCheckPeriod;
    absl::Status broken_off;
    while (!ended_) {
      Wait();
      Read();
      if (ended_ || !broken_off.ok()) continue;
      broken_off = Check();
      if (!broken_off.ok()) kill(-pid_, SIGKILL);
    }
    // What it started and left behind has no business of its own.
    kill(-pid_, SIGKILL);
    Read();
    SayWhatIsMissing();
    if (!broken_off.ok()) return broken_off;
    if (end_.code == 0) return kept_;
    const std::string how =
        end_.signal != 0 ? absl::StrCat("signal ", end_.signal) : absl::StrCat("exit code ", end_.code);
    return absl::FailedPreconditionError(
        absl::StrCat(command_.name, " failed with ", how, ":\n", LastLines(kept_)));
  }

 private:
  absl::Status Start() {
    absl::StatusOr<Pipe> pipe = Pipe::Open();
    if (!pipe.ok()) return pipe.status();
    SpawnOptions options;
    options.command = command_.command;
    options.search_path = true;
    options.environment = OwnEnvironmentWith(command_.variables);
    options.working_directory = command_.working_directory;
    options.output_fd = pipe->write_end.get();
    options.error_fd = pipe->write_end.get();
    options.group = SpawnOptions::Group::kOwn;
    options.death_signal = SIGKILL;
    const absl::StatusOr<pid_t> pid = Spawn(options);
    if (!pid.ok()) return pid.status();
    pid_ = *pid;
    process_ = OpenPidfd(pid_);
    output_ = std::move(pipe->read_end);
    return SetNonBlocking(output_.get());
  }

  void Wait() {
    std::vector<pollfd> fds;
    if (output_.valid()) fds.push_back({output_.get(), POLLIN, 0});
    if (process_.valid()) fds.push_back({process_.get(), POLLIN, 0});
    absl::Duration timeout = std::min(next_check_, command_.deadline) - clock_.Steady();
    if (!process_.valid()) timeout = std::min(timeout, kLookPeriod);
    const absl::Duration bounded = std::clamp(timeout, absl::ZeroDuration(), kCheckPeriod);
    poll(fds.data(), fds.size(), static_cast<int>(absl::ToInt64Milliseconds(bounded)) + 1);
    int status = 0;
    const pid_t reaped = waitpid(pid_, &status, WNOHANG);
    ended_ = reaped == pid_ || (reaped < 0 && errno == ECHILD);
    if (reaped == pid_) end_ = EndFromWaitStatus(status);
  }

  void Read() {
    char buffer[16 << 10];
    while (output_.valid()) {
      const ssize_t count = ReadSome(output_.get(), buffer, sizeof(buffer));
      if (count < 0) return;  // nothing for now
      if (count == 0) {
        output_.Reset();
        return;
      }
      Take(absl::string_view(buffer, static_cast<size_t>(count)));
    }
  }

  void Take(absl::string_view text) {
    kept_.append(text.data(), text.size());
    if (kept_.size() > kKeptBytes) kept_.erase(0, kept_.size() - kKeptBytes);
    if (command_.output_fd < 0) return;
    const int64_t room = std::max<int64_t>(0, command_.max_output_bytes - passed_bytes_);
    const absl::string_view passed = text.substr(0, static_cast<size_t>(room));
    WriteAll(command_.output_fd, passed);
    passed_bytes_ += static_cast<int64_t>(passed.size());
    missing_bytes_ += static_cast<int64_t>(text.size() - passed.size());
  }

  void SayWhatIsMissing() const {
    if (missing_bytes_ == 0) return;
    WriteAll(command_.output_fd, absl::StrCat("\n[", missing_bytes_, " bytes of output are left out]\n"));
  }

  absl::Status Check() {
    const absl::Time now = clock_.Steady();
    if (now >= command_.deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(command_.name, " was killed: it took too long; it wrote last:\n", LastLines(kept_)));
    }
    if (command_.check == nullptr || now < next_check_) {
      if (now >= next_check_) next_check_ = now + kCheckPeriod;
      return absl::OkStatus();
    }
    next_check_ = now + kCheckPeriod;
    return command_.check();
  }

  const BoundedCommand& command_;
  const Clock& clock_;
  pid_t pid_ = -1;
  UniqueFd process_;
  UniqueFd output_;
  bool ended_ = false;
  ProcessEnd end_;
  absl::Time next_check_;
  std::string kept_;
  int64_t passed_bytes_ = 0;
  int64_t missing_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::string> RunBounded(const BoundedCommand& command, const Clock& clock) {
  return Run(command, clock).ToTheEnd();
}

}  // namespace adaptdl::worker
