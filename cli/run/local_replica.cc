#include "cli/run/local_replica.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/file.h"

namespace adaptdl::cli {
namespace {

// Both ends of a pipe; closes those that nobody has taken.
class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_, O_CLOEXEC) != 0) ends_[0] = ends_[1] = -1;
  }
  ~Pipe() {
    Close(0);
    Close(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  bool open() const { return ends_[0] >= 0; }
  int read_end() const { return ends_[0]; }
  int write_end() const { return ends_[1]; }
  void CloseWriteEnd() { Close(1); }
  int TakeReadEnd() {
    const int fd = ends_[0];
    ends_[0] = -1;
    return fd;
  }

 private:
  void Close(int end) {
    if (ends_[end] >= 0) close(ends_[end]);
    ends_[end] = -1;
  }

  int ends_[2];
};

std::vector<std::string> MergeEnvironment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const absl::string_view text = *entry;
    if (!changes.contains(std::string(text.substr(0, text.find('='))))) merged.emplace_back(text);
  }
  for (const auto& [name, value] : changes) {
    if (!value.empty()) merged.push_back(absl::StrCat(name, "=", value));
  }
  return merged;
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Between fork() and exec() nothing may be called that is not async-signal-safe: everything is prepared.
struct ChildPlan {
  std::vector<char*> argv;
  std::vector<char*> envp;
  pid_t parent = 0;
  int null_fd = -1;
  int output = -1;
  int error = -1;
  // Takes the errno of what went wrong; closed by a successful exec().
  int report = -1;
};

[[noreturn]] void RunChild(const ChildPlan& plan) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before.
  if (getppid() != plan.parent) _exit(127);
  if (dup2(plan.null_fd, STDIN_FILENO) >= 0 && dup2(plan.output, STDOUT_FILENO) >= 0 &&
      dup2(plan.error, STDERR_FILENO) >= 0) {
    execvpe(plan.argv[0], plan.argv.data(), plan.envp.data());
  }
  const int error = errno;
  const ssize_t written = write(plan.report, &error, sizeof(error));
  (void)written;
  _exit(127);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalReplica>> LocalReplica::Start(
    int rank, const std::vector<std::string>& arguments,
    const std::map<std::string, std::string>& environment) {
  Pipe output;
  Pipe error;
  Pipe report;
  const int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (!output.open() || !error.open() || !report.open() || null_fd < 0) {
    return ErrnoStatus(errno, "open pipes");
  }
  const std::vector<std::string> variables = MergeEnvironment(environment);
  const ChildPlan plan = {.argv = Pointers(arguments),
                          .envp = Pointers(variables),
                          .parent = getpid(),
                          .null_fd = null_fd,
                          .output = output.write_end(),
                          .error = error.write_end(),
                          .report = report.write_end()};
  const pid_t pid = fork();
  if (pid == 0) RunChild(plan);
  const int fork_error = errno;
  close(null_fd);
  if (pid < 0) return ErrnoStatus(fork_error, "fork");
  setpgid(pid, pid);  // here too, so that it is so before anybody signals the group
  output.CloseWriteEnd();
  error.CloseWriteEnd();
  report.CloseWriteEnd();
  int failure = 0;
  if (read(report.read_end(), &failure, sizeof(failure)) == sizeof(failure)) {
    waitpid(pid, nullptr, 0);
    return ErrnoStatus(failure, absl::StrCat("cannot start ", arguments.front()));
  }
  const int end_fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  fcntl(output.read_end(), F_SETFL, O_NONBLOCK);
  fcntl(error.read_end(), F_SETFL, O_NONBLOCK);
  return std::unique_ptr<LocalReplica>(
      new LocalReplica(rank, pid, end_fd, output.TakeReadEnd(), error.TakeReadEnd()));
}

LocalReplica::~LocalReplica() {
  Signal(SIGKILL);
  if (!ended()) Reap();
  close(end_fd_);
  CloseOutput(0);
  CloseOutput(1);
}

void LocalReplica::CloseOutput(int stream) {
  if (output_fds_[stream] >= 0) close(output_fds_[stream]);
  output_fds_[stream] = -1;
}

const ReplicaEnd& LocalReplica::Reap() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  ReplicaEnd end;
  end.rank = rank_;
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  end.code = end.signal != 0 ? 128 + end.signal : WEXITSTATUS(status);
  return end_.emplace(end);
}

void LocalReplica::Signal(int signal) const { kill(-pid_, signal); }

}  // namespace adaptdl::cli
