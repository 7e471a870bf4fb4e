#include "services/worker/shim/shim.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/file.h"
#include "libs/base/last_words.h"
#include "libs/base/process/pipe.h"
#include "libs/base/process/wait.h"
#include "libs/base/unique_fd.h"
#include "services/worker/shim/cgroup.h"
#include "services/worker/shim/child.h"
#include "services/worker/shim/control.h"
#include "services/worker/shim/cri_log.h"
#include "services/worker/shim/exit_file.h"
#include "services/worker/shim/records.h"

namespace adaptdl::worker {
namespace {

// Processes forked during a sweep are caught by the next one.
constexpr absl::Duration kSweepPeriod = absl::Milliseconds(100);
// Of stderr: room for the stack trace that libraries print behind an exception's message.
constexpr size_t kTailBytes = 16 << 10;

class Shim {
 public:
  Shim(const ShimOptions& options, const Clock& clock)
      : options_(options),
        clock_(clock),
        exit_file_("."),
        log_({.path = kLogFile,
              .max_file_bytes = options.log_file_bytes,
              .max_files = options.log_files,
              .write = nullptr}) {}

  int Run() {
    TakeSignals();
    // Without the socket a restarted worker can't come back; the one that started us still can do everything.
    if (const absl::Status status = control_.Listen(kControlSocket); !status.ok()) Complain(status);
    if (options_.control_fd >= 0) control_.Adopt(options_.control_fd);
    last_connected_ = clock_.Steady();
    record_.start_time = clock_.Now();
    if (Start()) {
      while (!Finished()) Step();
    }
    return Conclude();
  }

 private:
  void TakeSignals() {
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t signals;
    sigemptyset(&signals);
    for (const int number : {SIGCHLD, SIGTERM, SIGINT}) sigaddset(&signals, number);
    pthread_sigmask(SIG_SETMASK, &signals, nullptr);
    signal_fd_ = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  }

  // Whether the process runs.
  bool Start() {
    const absl::StatusOr<std::string> launch = ReadWholeFile(kLaunchFile);
    absl::StatusOr<ProcessSpec> spec =
        launch.ok() ? ProcessSpecFromLaunchFile(*launch) : absl::StatusOr<ProcessSpec>(launch.status());
    if (!spec.ok()) {
      record_.lost = true;
      record_.cause = Cause::kNode;
      record_.message = absl::StrCat(kLaunchFile, " can't be read: ", spec.status().message());
      return false;
    }
    grace_period_ = spec->grace_period;
    cgroup_ = spec->cgroup;
    memory_bytes_ = spec->memory_bytes;
    const StartedChild child = StartChild(*spec);
    if (child.pid < 0) {
      record_.exit_code = child.exit_code;
      record_.cause = child.cause;
      record_.message = child.failure;
      log_.AppendNote(child.failure, clock_.Now());
      return false;
    }
    pid_ = child.pid;
    output_[0] = child.stdout_fd;
    output_[1] = child.stderr_fd;
    report_.Reset(child.report_fd);
    const RunningRecord running{.pid = pid_, .start_time = record_.start_time};
    if (const absl::Status status = WriteFileAtomically(kRunningFile, RunningRecordToJson(running), 0640);
        !status.ok()) {
      Complain(status);
    }
    running_line_ = ShimEventToLine({.kind = ShimEvent::Kind::kRunning, .running = running});
    control_.Broadcast(running_line_);
    return true;
  }

  bool Finished() {
    if (!exited_ || (!no_children_ && !GivenUp())) return false;
    return (output_[0] < 0 && output_[1] < 0) || GivenUp();
  }

  // Whether what is left won't end: a process that no signal reaches, or a pipe that somebody else holds.
  bool GivenUp() const { return give_up_at_ && clock_.Steady() >= *give_up_at_; }

  void Step() {
    std::vector<pollfd> fds = {{signal_fd_, POLLIN, 0}};
    for (const int fd : output_) {
      if (fd >= 0) fds.push_back({fd, POLLIN, 0});
    }
    control_.AddPollFds(&fds);
    poll(fds.data(), fds.size(), PollTimeout());
    HandleSignals();
    for (const StopCommand& command : control_.Process(running_line_))
      Stop(command.grace_period, command.reason);
    ReadOutput(LogStream::kStdout);
    ReadOutput(LogStream::kStderr);
    CheckOrphaned();
    Enforce();
  }

  int PollTimeout() const {
    const absl::Time now = clock_.Steady();
    absl::Duration timeout = absl::Hours(1);
    const auto consider = [&](absl::Time when) { timeout = std::min(timeout, when - now); };
    if (kill_at_ && !killing_) consider(*kill_at_);
    if (killing_) consider(now + kSweepPeriod);
    if (give_up_at_) consider(*give_up_at_);
    if (!control_.connected() && !stopping_) consider(last_connected_ + options_.orphan_timeout);
    return static_cast<int>(absl::ToInt64Milliseconds(
        absl::Ceil(std::max(timeout, absl::ZeroDuration()), absl::Milliseconds(1))));
  }

  void HandleSignals() {
    signalfd_siginfo info;
    while (read(signal_fd_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
      if (info.ssi_signo != SIGCHLD) Stop(grace_period_, "the shim was told to end");
    }
    int status = 0;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
      if (pid != pid_) continue;
      exited_ = true;
      record_.end_time = clock_.Now();
      const ProcessEnd end = EndFromWaitStatus(status);
      record_.signal = end.signal;
      record_.exit_code = end.signal == 0 ? end.code : 0;
    }
    no_children_ = pid < 0 && errno == ECHILD;
  }

  void Stop(absl::Duration grace_period, const std::string& reason) {
    const absl::Time deadline = clock_.Steady() + std::max(grace_period, absl::ZeroDuration());
    kill_at_ = kill_at_ ? std::min(*kill_at_, deadline) : deadline;
    if (stopping_) return;  // programs take a second SIGTERM for impatience
    stopping_ = true;
    stop_reason_ = reason;
    if (!exited_) kill(-pid_, SIGTERM);
  }

  void CheckOrphaned() {
    if (control_.connected()) {
      last_connected_ = clock_.Steady();
    } else if (!stopping_ && clock_.Steady() - last_connected_ >= options_.orphan_timeout) {
      record_.cause = Cause::kNode;
      record_.message =
          absl::StrCat("stopped: no worker came back within ", absl::FormatDuration(options_.orphan_timeout));
      log_.AppendNote(record_.message, clock_.Now());
      Stop(grace_period_, record_.message);
    }
  }

  // Kills what is due. The rest of the group has the grace period too if it was asked to stop: the process
  // may be a shell that SIGTERM ended while its child still writes a checkpoint.
  void Enforce() {
    const bool due = kill_at_ ? clock_.Steady() >= *kill_at_ : exited_;
    if (exited_ && no_children_) {
      if (!give_up_at_) give_up_at_ = clock_.Steady() + options_.drain_timeout;
      return;
    }
    if (!due) return;
    if (!killing_ && stopping_ && !exited_) {
      record_.message = absl::StrCat("killed: it did not end within its grace period after SIGTERM");
      if (!stop_reason_.empty()) absl::StrAppend(&record_.message, " (", stop_reason_, ")");
      log_.AppendNote(record_.message, clock_.Now());
    }
    killing_ = true;
    KillAll(pid_);
    if (!cgroup_.empty()) KillCgroup(cgroup_);
    if (exited_ && !give_up_at_) give_up_at_ = clock_.Steady() + options_.drain_timeout;
  }

  void ReadOutput(LogStream stream) {
    int& fd = output_[static_cast<int>(stream)];
    static char buffer[64 << 10];
    // A bounded number of reads, so that a chatty process can't keep us from commands.
    for (int i = 0; fd >= 0 && i < 16; ++i) {
      const ssize_t count = read(fd, buffer, sizeof(buffer));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return;
      if (count <= 0) {
        close(fd);
        fd = -1;
        return;
      }
      log_.Append(stream, absl::string_view(buffer, count), clock_.Now());
      if (stream == LogStream::kStderr) KeepTail(absl::string_view(buffer, count));
    }
  }

  void KeepTail(absl::string_view written) {
    absl::StrAppend(&stderr_tail_, written);
    if (stderr_tail_.size() > 2 * kTailBytes) stderr_tail_.erase(0, stderr_tail_.size() - kTailBytes);
  }

  // A program that failed has mostly said why.
  void QuoteLastWords() {
    if (!IsUnexplainedFailure(record_) || stopping_ || !record_.message.empty()) return;
    const std::string words = LastWords(stderr_tail_);
    if (!words.empty()) record_.message = absl::StrCat("its last words: ", words);
  }

  // The kernel ends the whole replica when it has used up its memory; from the signal alone nobody could
  // tell.
  void ExplainOutOfMemory() {
    if (cgroup_.empty()) return;
    if (OutOfMemoryKills(cgroup_) > 0 && record_.signal == SIGKILL) {
      record_.message = memory_bytes_ > 0
                            ? absl::StrCat("out of memory: it may use ", memory_bytes_,
                                           " bytes (resources.memory of the job); ask for more, or use less")
                            : "out of memory: the machine had none left";
      log_.AppendNote(record_.message, clock_.Now());
    }
    RemoveCgroup(cgroup_);
  }

  // A process that only prepares the program (ProcessSpec) may have said why that did not begin.
  void TakeStartFailure() {
    if (!report_.valid()) return;
    // All that a pipe holds.
    std::string report(64 << 10, '\0');
    const ssize_t count = ReadSome(report_.get(), report.data(), report.size());
    if (count <= 0) return;
    report.resize(static_cast<size_t>(count));
    const absl::StatusOr<StartFailure> failure = StartFailureFromJson(report);
    if (!failure.ok() || record_.signal != 0 || record_.exit_code != failure->exit_code) return;
    record_.cause = failure->cause;
    record_.message = failure->message;
  }

  int Conclude() {
    TakeStartFailure();
    ExplainOutOfMemory();
    QuoteLastWords();
    log_.Finish(clock_.Now());
    if (!exited_) record_.end_time = clock_.Now();
    record_.dropped_log_bytes = log_.dropped_bytes();
    if (!no_children_ && pid_ > 0) {
      absl::StrAppend(&record_.message, record_.message.empty() ? "" : "; ",
                      "processes that it started could not be killed");
    }
    const absl::Status status = exit_file_.Write(record_);
    if (!status.ok()) Complain(status);
    control_.Process("");
    control_.Broadcast(ShimEventToLine({.kind = ShimEvent::Kind::kExited, .exit = record_}));
    return status.ok() ? 0 : 1;
  }

  void Complain(const absl::Status& status) const {
    fprintf(stderr, "%s adaptdl-shim: %s\n", FormatTimestamp(clock_.Now()).c_str(),
            status.ToString().c_str());
  }

  const ShimOptions options_;
  const Clock& clock_;
  ExitFile exit_file_;
  CriLogWriter log_;
  ControlServer control_;
  ExitRecord record_;
  std::string running_line_;
  absl::Duration grace_period_;
  // Empty: none of its own.
  std::string cgroup_;
  int64_t memory_bytes_ = 0;
  int signal_fd_ = -1;
  int output_[2] = {-1, -1};
  std::string stderr_tail_;
  UniqueFd report_;
  pid_t pid_ = -1;

  bool exited_ = false;       // the process itself
  bool no_children_ = false;  // nor anything that it started
  bool stopping_ = false;
  bool killing_ = false;
  std::string stop_reason_;
  // In steady time.
  absl::Time last_connected_;
  std::optional<absl::Time> kill_at_;
  std::optional<absl::Time> give_up_at_;
};

}  // namespace

int RunShim(const ShimOptions& options, const Clock& clock) { return Shim(options, clock).Run(); }

}  // namespace adaptdl::worker
