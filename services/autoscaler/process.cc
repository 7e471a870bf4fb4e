#include "services/autoscaler/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/file.h"

namespace adaptdl::autoscaler {
namespace {

// An open file descriptor, closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void Reset(int fd) {
    Close();
    fd_ = fd;
  }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

struct Pipe {
  Descriptor read_end;
  Descriptor write_end;

  absl::Status Open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
    read_end.Reset(ends[0]);
    write_end.Reset(ends[1]);
    return absl::OkStatus();
  }
};

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

ssize_t ReadAll(int fd, void* buffer, size_t size) {
  ssize_t count;
  do {
    count = read(fd, buffer, size);
  } while (count < 0 && errno == EINTR);
  return count;
}

// What the child runs between fork and exec: other threads may have held any lock at the fork, so nothing
// here may allocate, lock or log. Reports errno through `errors`.
[[noreturn]] void RunChild(char* const* argv, char* const* environment, int log, int go, int errors) {
  setsid();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &standard, nullptr);
  char byte;
  if (ReadAll(go, &byte, 1) != 1) _exit(1);  // our maker died, or could not remember us
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0 && dup2(null, 0) == 0 && dup2(log, 1) == 1 && dup2(log, 2) == 2) {
    // Leaves `errors` open until exec; libraries may have opened files without O_CLOEXEC.
    if (errors > 3) close_range(3, errors - 1, 0);
    close_range(errors + 1, ~0U, 0);
    execve(argv[0], argv, environment);
  }
  const int error = errno;
  [[maybe_unused]] const ssize_t written = write(errors, &error, sizeof(error));
  _exit(127);
}

absl::Status Finish(Pipe* go, Pipe* errors, const absl::Status& remembered, const std::string& program) {
  if (!remembered.ok()) return remembered;
  const char byte = 'g';
  if (write(go->write_end.get(), &byte, 1) != 1) return ErrnoStatus(errno, absl::StrCat("start ", program));
  int error = 0;
  // Nothing comes when exec succeeded: it closes the child's end.
  if (ReadAll(errors->read_end.get(), &error, sizeof(error)) == sizeof(error)) {
    return ErrnoStatus(error, absl::StrCat("start ", program));
  }
  return absl::OkStatus();
}

}  // namespace

std::string FormatIdentity(const ProcessIdentity& identity) {
  return absl::StrCat(identity.pid, " ", identity.start_time, "\n");
}

absl::StatusOr<ProcessIdentity> ParseIdentity(absl::string_view text) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  ProcessIdentity identity;
  if (words.size() != 2 || !absl::SimpleAtoi(words[0], &identity.pid) || identity.pid <= 0 ||
      !absl::SimpleAtoi(words[1], &identity.start_time)) {
    return absl::DataLossError(absl::StrCat("\"", text.substr(0, 100), "\" is no \"<pid> <start time>\""));
  }
  return identity;
}

absl::StatusOr<ProcessIdentity> IdentifyProcess(pid_t pid) {
  const absl::StatusOr<std::string> stat = ReadWholeFile(absl::StrCat("/proc/", pid, "/stat"));
  if (!stat.ok()) return absl::NotFoundError(absl::StrCat("no process ", pid));
  // The second field, the program's name in brackets, may hold anything.
  const size_t name_end = stat->rfind(')');
  if (name_end == std::string::npos) return absl::InternalError(absl::StrCat("/proc/", pid, "/stat is odd"));
  const std::vector<std::string> fields = absl::StrSplit(stat->substr(name_end + 1), ' ', absl::SkipEmpty());
  ProcessIdentity identity{pid, 0};
  // The third and the 22nd field.
  if (fields.size() < 20 || !absl::SimpleAtoi(fields[19], &identity.start_time)) {
    return absl::InternalError(absl::StrCat("/proc/", pid, "/stat is odd"));
  }
  if (fields[0] == "Z" || fields[0] == "X")
    return absl::NotFoundError(absl::StrCat("process ", pid, " has ended"));
  return identity;
}

bool IsAlive(const ProcessIdentity& identity) {
  const absl::StatusOr<ProcessIdentity> current = IdentifyProcess(identity.pid);
  if (current.ok() && *current == identity) return true;
  // Fails for whom we did not start ourselves; their new parent reaps them.
  waitpid(identity.pid, nullptr, WNOHANG);
  return false;
}

absl::Status SignalProcess(const ProcessIdentity& identity, int signal) {
  if (!IsAlive(identity)) return absl::NotFoundError(absl::StrCat("process ", identity.pid, " has ended"));
  if (kill(identity.pid, signal) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("signal process ", identity.pid));
}

absl::StatusOr<ProcessIdentity> SpawnDetached(
    const SpawnOptions& options, const std::function<absl::Status(const ProcessIdentity&)>& remember) {
  const std::vector<char*> argv = Pointers(options.command);
  const std::vector<char*> environment = Pointers(options.environment);
  Descriptor log(open(options.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (log.get() < 0) return ErrnoStatus(errno, absl::StrCat("open ", options.log_file));
  Pipe go, errors;
  if (const absl::Status status = go.Open(); !status.ok()) return status;
  if (const absl::Status status = errors.Open(); !status.ok()) return status;
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus(errno, "fork");
  if (pid == 0) {
    close(go.write_end.get());  // or the child would wait for itself
    RunChild(argv.data(), environment.data(), log.get(), go.read_end.get(), errors.write_end.get());
  }
  errors.write_end.Close();
  const absl::StatusOr<ProcessIdentity> identity = IdentifyProcess(pid);
  const absl::Status status =
      Finish(&go, &errors, identity.ok() ? remember(*identity) : identity.status(), options.command[0]);
  if (status.ok()) return *identity;
  go.write_end.Close();  // a child that still waits ends
  waitpid(pid, nullptr, 0);
  return status;
}

}  // namespace adaptdl::autoscaler
