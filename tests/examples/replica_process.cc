#include "tests/examples/replica_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "gtest/gtest.h"

namespace examples {
namespace {

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

}  // namespace

Process::Process(const std::string& program, const std::vector<std::string>& arguments,
                 const Environment& environment) {
  int pipe_ends[2];
  EXPECT_EQ(pipe2(pipe_ends, O_CLOEXEC), 0);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(pipe_ends[1], STDOUT_FILENO);
    dup2(pipe_ends[1], STDERR_FILENO);
    setenv("OMP_NUM_THREADS", "1", 1);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    const std::string path = std::string(ADAPTDL_BINARY_DIR) + "/bin/" + program;
    std::vector<char*> argv = {const_cast<char*>(path.c_str())};
    for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    execv(path.c_str(), argv.data());
    _exit(127);
  }
  close(pipe_ends[1]);
  output_fd_ = pipe_ends[0];
}

Process::~Process() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(output_fd_);
}

bool Process::WaitFor(const std::string& text) {
  while (output_.find(text) == std::string::npos) {
    if (!ReadMore()) return false;
  }
  return true;
}

void Process::Signal(int signal) { kill(pid_, signal); }

int Process::Wait() {
  while (ReadMore()) {
  }
  int status = 0;
  EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::vector<double> Process::NumbersAfter(const std::string& name) const {
  std::vector<double> numbers;
  for (size_t at = output_.find(name); at != std::string::npos; at = output_.find(name, at)) {
    at += name.size();
    numbers.push_back(std::atof(output_.c_str() + at));
  }
  return numbers;
}

bool Process::ReadMore() {
  char text[4096];
  const ssize_t got = read(output_fd_, text, sizeof(text));
  if (got <= 0) return false;
  output_.append(text, got);
  return true;
}

std::vector<std::unique_ptr<Process>> StartGroup(const std::string& program, int replicas,
                                                 const std::vector<std::string>& arguments,
                                                 const std::string& folder) {
  const std::string port = std::to_string(FreePort());
  std::vector<std::unique_ptr<Process>> group;
  for (int rank = 0; rank < replicas; ++rank) {
    group.push_back(std::make_unique<Process>(program, arguments,
                                              Environment{{"ADAPTDL_REPLICA_RANK", std::to_string(rank)},
                                                          {"ADAPTDL_NUM_REPLICAS", std::to_string(replicas)},
                                                          {"ADAPTDL_NUM_NODES", "1"},
                                                          {"ADAPTDL_MASTER_PORT", port},
                                                          {"ADAPTDL_CHECKPOINT_PATH", folder + "/checkpoint"},
                                                          {"ADAPTDL_SHARE_PATH", folder}}));
  }
  return group;
}

}  // namespace examples
