#include "tests/integration/process.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "libs/base/file.h"

namespace adaptdl::integration {

Process::~Process() { Kill(); }

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pidfd_(std::exchange(other.pidfd_, -1)) {}

Process& Process::operator=(Process&& other) noexcept {
  Kill();
  pid_ = std::exchange(other.pid_, -1);
  pidfd_ = std::exchange(other.pidfd_, -1);
  return *this;
}

Process Process::Start(const std::vector<std::string>& arguments, const std::string& log, int network) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  Process process;
  process.pid_ = fork();
  if (process.pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (network >= 0 && setns(network, CLONE_NEWNET) != 0) _exit(126);
    const int output = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  EXPECT_GT(process.pid_, 0);
  process.pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, process.pid_, 0));
  EXPECT_GE(process.pidfd_, 0);
  return process;
}

void Process::Signal(int signal) const {
  if (running()) kill(pid_, signal);
}

int Process::Wait(absl::Duration timeout) {
  if (!running()) return -1;
  pollfd descriptor{pidfd_, POLLIN, 0};
  if (poll(&descriptor, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) <= 0) return -1;
  int status = 0;
  waitpid(pid_, &status, 0);
  close(pidfd_);
  pid_ = pidfd_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void Process::Kill() {
  Signal(SIGKILL);
  Wait(absl::Minutes(1));
}

std::vector<pid_t> FindProcesses(const std::string& text) {
  std::vector<pid_t> found;
  DIR* folder = opendir("/proc");
  while (const dirent* entry = readdir(folder)) {
    int pid = 0;
    if (!absl::SimpleAtoi(entry->d_name, &pid) || pid == getpid()) continue;
    const auto command_line = ReadWholeFile(absl::StrCat("/proc/", pid, "/cmdline"));
    if (command_line.ok() && command_line->find(text) != std::string::npos) found.push_back(pid);
  }
  closedir(folder);
  return found;
}

int KillProcessesMatching(const std::string& text) {
  const std::vector<pid_t> found = FindProcesses(text);
  for (const pid_t pid : found) kill(pid, SIGKILL);
  return static_cast<int>(found.size());
}

int FreePort() {
  const int socket_fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(socket_fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(getsockname(socket_fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(socket_fd);
  return ntohs(address.sin_port);
}

}  // namespace adaptdl::integration
