#include "libs/base/process/child_setup.h"

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
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/process/pipe.h"

namespace adaptdl {
namespace {

constexpr int kFirstFile = STDERR_FILENO + 1;
// As shells have it when a program can't be run.
constexpr int kExitNotStarted = 127;

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

[[noreturn]] void Fail(const ChildPlan& plan, SpawnStage stage) {
  const SpawnFailure failure{stage, errno};
  [[maybe_unused]] const ssize_t written = write(plan.report, &failure, sizeof(failure));
  _exit(kExitNotStarted);
}

// Handlers go with exec anyway; until then none of ours may run here.
void ResetSignals(const ChildPlan& plan) {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action = {};
    if (sigaction(signal, nullptr, &action) != 0) continue;
    if (action.sa_handler == SIG_IGN && !plan.heeded[static_cast<size_t>(signal)]) continue;
    action = {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// -1: the text is no number.
int ToNumber(const char* text) {
  int number = 0;
  for (; *text != '\0'; ++text) {
    if (*text < '0' || *text > '9') return -1;
    number = 10 * number + (*text - '0');
  }
  return number;
}

// For kernels before 5.11, and filters that do not know close_range. opendir() would allocate.
void MarkAllFrom(int first) {
  const int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  alignas(dirent64) char buffer[4096];
  long bytes;
  while ((bytes = syscall(SYS_getdents64, folder, buffer, sizeof(buffer))) > 0) {
    for (long at = 0; at < bytes;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer + at);
      const int fd = ToNumber(entry->d_name);
      if (fd >= first) fcntl(fd, F_SETFD, FD_CLOEXEC);
      at += entry->d_reclen;
    }
  }
  close(folder);
}

// No descriptor of ours goes on into the program, not even one that a library forgot to mark.
void MarkForClosing(int first) {
  if (syscall(SYS_close_range, first, ~0U, CLOSE_RANGE_CLOEXEC) != 0) MarkAllFrom(first);
}

// Gives the descriptors their numbers, from copies that are out of the way of these.
bool ArrangeFiles(ChildPlan* plan) {
  const SpawnOptions& options = plan->options;
  const int first_free = kFirstFile + static_cast<int>(options.files.size());
  const auto copy = [first_free](int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, first_free); };
  const int report = copy(plan->report);
  if (report < 0) return false;
  plan->report = report;
  const int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int input_copy = input < 0 ? -1 : copy(input);
  const int output = copy(options.output_fd < 0 ? STDOUT_FILENO : options.output_fd);
  const int error = copy(options.error_fd < 0 ? STDERR_FILENO : options.error_fd);
  for (size_t i = 0; i < options.files.size(); ++i) {
    plan->files[i] = copy(options.files[i]);
    if (plan->files[i] < 0) return false;
  }
  if (input_copy < 0 || dup2(input_copy, STDIN_FILENO) < 0) return false;
  // Where we have no standard output, it has none either.
  if (output >= 0 ? dup2(output, STDOUT_FILENO) < 0 : options.output_fd >= 0) return false;
  if (error >= 0 ? dup2(error, STDERR_FILENO) < 0 : options.error_fd >= 0) return false;
  for (size_t i = 0; i < options.files.size(); ++i) {
    if (dup2(plan->files[i], kFirstFile + static_cast<int>(i)) < 0) return false;
  }
  MarkForClosing(first_free);
  return true;
}

bool EnterGroup(SpawnOptions::Group group) {
  switch (group) {
    case SpawnOptions::Group::kOurs:
      return true;
    case SpawnOptions::Group::kOwn:
      return setpgid(0, 0) == 0;
    case SpawnOptions::Group::kSession:
      return setsid() >= 0;
  }
  return true;
}

bool EnterControlGroup(const char* file) {
  const int fd = open(file, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool entered = write(fd, "0", 1) == 1;
  const int error = errno;
  close(fd);
  errno = error;
  return entered;
}

// For good: no set-user-ID program leads back.
bool GiveUpRights(const SpawnOptions& options) {
  const rlimit no_cores = {0, 0};  // they would hold what the program was trusted with
  if (options.confined && setrlimit(RLIMIT_CORE, &no_cores) != 0) return false;
  if (options.account.has_value()) {
    const SpawnAccount& account = *options.account;
    const auto most = static_cast<rlim_t>(account.max_processes);
    const rlimit processes = {most, most};
    if (most > 0 && setrlimit(RLIMIT_NPROC, &processes) != 0) return false;
    umask(0077);
    if (setgroups(account.groups.size(), account.groups.data()) != 0 ||
        setresgid(account.gid, account.gid, account.gid) != 0 ||
        setresuid(account.uid, account.uid, account.uid) != 0) {
      return false;
    }
  }
  return !options.confined || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

}  // namespace

ChildPlan::ChildPlan(const SpawnOptions& spawn_options)
    : options(spawn_options),
      program(options.program.empty() ? options.command[0] : options.program),
      parent(getpid()),
      argv(Pointers(options.command)),
      envp(options.environment.has_value() ? Pointers(*options.environment) : std::vector<char*>()),
      heeded(NSIG, false),
      control_group_file(
          options.control_group.empty() ? "" : absl::StrCat(options.control_group, "/cgroup.procs")),
      files(options.files) {
  for (const int signal : options.heeded_signals) heeded[static_cast<size_t>(signal)] = true;
}

void RunChild(ChildPlan* plan) {
  const SpawnOptions& options = plan->options;
  ResetSignals(*plan);
  if (!EnterGroup(options.group)) Fail(*plan, SpawnStage::kSetUp);
  char byte;
  // Our maker may have died, or not want us.
  if (plan->go >= 0 && ReadSome(plan->go, &byte, 1) != 1) _exit(kExitNotStarted);
  if (!ArrangeFiles(plan)) Fail(*plan, SpawnStage::kSetUp);
  if (!plan->control_group_file.empty() && !EnterControlGroup(plan->control_group_file.c_str())) {
    Fail(*plan, SpawnStage::kControlGroup);
  }
  if (!GiveUpRights(options)) Fail(*plan, SpawnStage::kAccount);
  if (options.death_signal != 0) {
    // A change of the account takes it back, so it comes after that.
    if (prctl(PR_SET_PDEATHSIG, options.death_signal) != 0) Fail(*plan, SpawnStage::kSetUp);
    if (getppid() != plan->parent) _exit(kExitNotStarted);  // it died before the line above
  }
  if (!options.working_directory.empty() && chdir(options.working_directory.c_str()) != 0) {
    Fail(*plan, SpawnStage::kWorkingDirectory);
  }
  char* const* environment = options.environment.has_value() ? plan->envp.data() : environ;
  if (options.search_path) {
    execvpe(plan->program.c_str(), plan->argv.data(), environment);
  } else {
    execve(plan->program.c_str(), plan->argv.data(), environment);
  }
  Fail(*plan, SpawnStage::kExecute);
}

}  // namespace adaptdl
