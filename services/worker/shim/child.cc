#include "services/worker/shim/child.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/file.h"

namespace adaptdl::worker {
namespace {

constexpr char kDefaultPath[] = "/usr/local/bin:/usr/bin:/bin";

// What the child tells its parent when it can't become the program.
struct StartError {
  enum Stage : int { kSetUp, kControlGroup, kAccount, kWorkingDirectory, kExecute } stage;
  int error;
};

std::string PathOf(const std::vector<std::pair<std::string, std::string>>& env) {
  std::string path = kDefaultPath;
  for (const auto& [name, value] : env) {
    if (name == "PATH") path = value;
  }
  return path;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& text : strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

[[noreturn]] void FailChild(int error_fd, StartError::Stage stage) {
  const StartError error{stage, errno};
  if (write(error_fd, &error, sizeof(error)) < 0) _exit(kExitCannotExecute);
  _exit(kExitCannotExecute);
}

struct ChildPlan {
  const char* program;
  char* const* argv;
  char* const* env;
  const char* working_directory;
  int stdout_fd;
  int stderr_fd;
  int error_fd;
  pid_t parent;
  // Of ProcessSpec.
  int64_t uid;
  int64_t gid;
  int64_t max_processes;
  // File to enter the control group by. Null: none.
  const char* cgroup_procs;
};

// Nothing else of ours goes on into the program, not even what a library forgot to mark.
void KeepStandardFilesOnly() {
  if (syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) == 0) return;
  // Kernels before 5.11, and filters that do not know the call.
  DIR* files = opendir("/proc/self/fd");
  if (files == nullptr) return;
  while (const dirent* entry = readdir(files)) {
    const int fd = atoi(entry->d_name);
    if (fd > STDERR_FILENO) fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  closedir(files);
}

bool EnterControlGroup(const char* procs) {
  const int fd = open(procs, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool entered = write(fd, "0", 1) == 1;
  const int error = errno;
  close(fd);
  errno = error;
  return entered;
}

// Becomes the job's account, for good: no set-user-ID program leads back.
bool GiveUpRights(const ChildPlan& plan) {
  const rlimit no_cores = {0, 0};  // they would hold the group's secret
  if (setrlimit(RLIMIT_CORE, &no_cores) != 0) return false;
  if (plan.uid >= 0) {
    const auto most = static_cast<rlim_t>(plan.max_processes);
    const rlimit processes = {most, most};
    if (most > 0 && setrlimit(RLIMIT_NPROC, &processes) != 0) return false;
    umask(0077);
    const auto uid = static_cast<uid_t>(plan.uid);
    const auto gid = static_cast<gid_t>(plan.gid);
    if (setgroups(0, nullptr) != 0 || setresgid(gid, gid, gid) != 0 || setresuid(uid, uid, uid) != 0)
      return false;
  }
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

// Runs in the child.
[[noreturn]] void BecomeProgram(const ChildPlan& plan) {
  setsid();
  const int null_fd = open("/dev/null", O_RDONLY);
  if (null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 || dup2(plan.stdout_fd, STDOUT_FILENO) < 0 ||
      dup2(plan.stderr_fd, STDERR_FILENO) < 0) {
    FailChild(plan.error_fd, StartError::kSetUp);
  }
  KeepStandardFilesOnly();
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (plan.cgroup_procs != nullptr && !EnterControlGroup(plan.cgroup_procs)) {
    FailChild(plan.error_fd, StartError::kControlGroup);
  }
  if (!GiveUpRights(plan)) FailChild(plan.error_fd, StartError::kAccount);
  // A change of the account takes the death signal back, so it comes after that.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) FailChild(plan.error_fd, StartError::kSetUp);
  if (getppid() != plan.parent) _exit(kExitCannotExecute);  // the parent died before the line above
  // With the rights of the job: where it may not go, it does not start.
  if (chdir(plan.working_directory) != 0) FailChild(plan.error_fd, StartError::kWorkingDirectory);
  execve(plan.program, plan.argv, plan.env);
  FailChild(plan.error_fd, StartError::kExecute);
}

StartedChild Failure(Cause cause, int exit_code, std::string message) {
  StartedChild child;
  child.cause = cause;
  child.exit_code = exit_code;
  child.failure = std::move(message);
  return child;
}

// What a file system says that does not work, whatever is asked of it.
bool IsOfStorage(int error) {
  switch (error) {
    case EIO:
    case ESTALE:
    case ENXIO:
    case ENODEV:
    case ETIMEDOUT:
    case EREMOTEIO:
    case ENOTCONN:
      return true;
    default:
      return false;
  }
}

StartedChild ExplainExecution(int error, const ProcessSpec& spec) {
  const std::string& command = spec.argv[0];
  switch (error) {
    case ENOENT:
      return Failure(Cause::kImage, kExitNotFound,
                     absl::StrCat("command '", command, "' not found (or the interpreter that it names)"));
    case EACCES:
      return Failure(
          Cause::kImage, kExitCannotExecute,
          absl::StrCat("command '", command, "' is not executable",
                       spec.uid >= 0 ? absl::StrCat(" for user ", spec.uid, ", which the job runs as") : ""));
    case ENOEXEC:
      return Failure(Cause::kImage, kExitCannotExecute,
                     absl::StrCat("command '", command,
                                  "' is no program for this machine, and no script that begins with '#!'"));
    default: {
      Cause cause = error == ENOMEM || error == EAGAIN ? Cause::kNode : Cause::kJob;
      if (IsOfStorage(error)) cause = Cause::kStorage;
      return Failure(cause, kExitCannotExecute,
                     absl::StrCat("command '", command, "' can't be executed: ", strerror(error)));
    }
  }
}

StartedChild Explain(const StartError& error, const ProcessSpec& spec) {
  const std::string why = strerror(error.error);
  switch (error.stage) {
    case StartError::kWorkingDirectory:
      return Failure(
          IsOfStorage(error.error) ? Cause::kStorage : Cause::kJob, kExitCannotExecute,
          absl::StrCat("working directory '", spec.working_directory, "' can't be entered: ", why));
    case StartError::kSetUp:
      return Failure(Cause::kNode, kExitCannotExecute, absl::StrCat("the process can't be set up: ", why));
    case StartError::kControlGroup:
      return Failure(Cause::kNode, kExitCannotExecute,
                     absl::StrCat("the process can't enter its control group ", spec.cgroup, ": ", why));
    case StartError::kAccount:
      return Failure(Cause::kNode, kExitCannotExecute,
                     absl::StrCat("the process can't be given to user ", spec.uid, ": ", why));
    case StartError::kExecute:
      break;
  }
  return ExplainExecution(error.error, spec);
}

struct Pipe {
  int read_end = -1;
  int write_end = -1;

  bool Open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    read_end = ends[0];
    write_end = ends[1];
    return true;
  }
  void Close() {
    if (read_end >= 0) close(read_end);
    if (write_end >= 0) close(write_end);
  }
};

}  // namespace

std::string FindProgram(const std::string& program,
                        const std::vector<std::pair<std::string, std::string>>& env) {
  if (program.find('/') != std::string::npos) return program;
  if (program.empty()) return "";
  std::string not_executable;
  for (const absl::string_view folder : absl::StrSplit(PathOf(env), ':')) {
    const std::string candidate = absl::StrCat(folder.empty() ? "." : folder, "/", program);
    struct stat info = {};
    if (stat(candidate.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    if (not_executable.empty()) not_executable = candidate;
  }
  return not_executable;
}

StartedChild StartChild(const ProcessSpec& spec) {
  const std::string program = FindProgram(spec.argv[0], spec.env);
  if (program.empty()) {
    return Failure(Cause::kImage, kExitNotFound,
                   absl::StrCat("command '", spec.argv[0], "' not found in PATH (", PathOf(spec.env), ")"));
  }
  std::vector<std::string> arguments = spec.argv;
  std::vector<std::string> variables;
  for (const auto& [name, value] : spec.env) variables.push_back(absl::StrCat(name, "=", value));
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> env = Pointers(variables);

  const std::string cgroup_procs = spec.cgroup.empty() ? "" : absl::StrCat(spec.cgroup, "/cgroup.procs");

  Pipe output, errors, start;
  pid_t pid = -1;
  if (output.Open() && errors.Open() && start.Open()) {
    const ChildPlan plan{program.c_str(),    argv.data(),
                         env.data(),         spec.working_directory.c_str(),
                         output.write_end,   errors.write_end,
                         start.write_end,    getpid(),
                         spec.uid,           spec.gid,
                         spec.max_processes, cgroup_procs.empty() ? nullptr : cgroup_procs.c_str()};
    pid = fork();
    if (pid == 0) BecomeProgram(plan);
  }
  if (pid < 0) {
    const int error = errno;
    for (Pipe* pipe : {&output, &errors, &start}) pipe->Close();
    return Failure(Cause::kNode, kExitCannotExecute,
                   absl::StrCat("no process can be made: ", strerror(error)));
  }
  close(output.write_end);
  close(errors.write_end);
  close(start.write_end);
  StartError error = {};
  ssize_t count;
  do {
    count = read(start.read_end, &error, sizeof(error));
  } while (count < 0 && errno == EINTR);
  close(start.read_end);
  if (count == static_cast<ssize_t>(sizeof(error))) {
    close(output.read_end);
    close(errors.read_end);
    return Explain(error, spec);
  }
  fcntl(output.read_end, F_SETFL, O_NONBLOCK);
  fcntl(errors.read_end, F_SETFL, O_NONBLOCK);
  StartedChild child;
  child.pid = pid;
  child.stdout_fd = output.read_end;
  child.stderr_fd = errors.read_end;
  return child;
}

void KillAll(pid_t group) {
  if (group > 1) kill(-group, SIGKILL);
  DIR* processes = opendir("/proc");
  if (processes == nullptr) return;
  while (const dirent* entry = readdir(processes)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry->d_name, &pid)) continue;
    const absl::StatusOr<std::string> stat = ReadWholeFile(absl::StrCat("/proc/", pid, "/stat"), 4096);
    if (!stat.ok()) continue;
    // "pid (name) state parent ...": the name may hold anything, so look behind its last bracket.
    const size_t name_end = stat->rfind(')');
    int parent = 0;
    if (name_end == std::string::npos || sscanf(stat->c_str() + name_end + 1, " %*c %d", &parent) != 1)
      continue;
    if (parent == getpid()) kill(pid, SIGKILL);
  }
  closedir(processes);
}

}  // namespace adaptdl::worker
