#include "services/worker/shim/control.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "libs/base/file.h"

namespace adaptdl::worker {
namespace {

constexpr size_t kMaxLine = 64 << 10;

// A worker that does not read what little it gets is taken for dead.
bool SendLine(int fd, absl::string_view line) {
  return send(fd, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(line.size());
}

}  // namespace

ControlServer::~ControlServer() {
  for (const Connection& connection : connections_) close(connection.fd);
  if (listening_fd_ < 0) return;
  close(listening_fd_);
  unlink(path_.c_str());
}

absl::Status ControlServer::Listen(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("socket path too long: ", path));
  }
  memcpy(address.sun_path, path.data(), path.size());
  unlink(path.c_str());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return ErrnoStatus(errno, "socket");
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 || listen(fd, 8) != 0) {
    const int error = errno;
    close(fd);
    return ErrnoStatus(error, absl::StrCat("listen on ", path));
  }
  listening_fd_ = fd;
  path_ = path;
  return absl::OkStatus();
}

void ControlServer::Adopt(int fd) {
  fcntl(fd, F_SETFL, O_NONBLOCK);
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  connections_.push_back({fd, ""});
}

void ControlServer::AddPollFds(std::vector<pollfd>* fds) const {
  if (listening_fd_ >= 0) fds->push_back({listening_fd_, POLLIN, 0});
  for (const Connection& connection : connections_) fds->push_back({connection.fd, POLLIN, 0});
}

std::vector<StopCommand> ControlServer::Process(absl::string_view greeting) {
  Accept(greeting);
  std::vector<StopCommand> commands;
  std::vector<Connection> kept;
  for (Connection& connection : connections_) {
    if (Read(&connection, &commands)) {
      kept.push_back(std::move(connection));
    } else {
      close(connection.fd);
    }
  }
  connections_ = std::move(kept);
  return commands;
}

void ControlServer::Broadcast(absl::string_view line) {
  std::vector<Connection> kept;
  for (Connection& connection : connections_) {
    if (SendLine(connection.fd, line)) {
      kept.push_back(std::move(connection));
    } else {
      close(connection.fd);
    }
  }
  connections_ = std::move(kept);
}

void ControlServer::Accept(absl::string_view greeting) {
  if (listening_fd_ < 0) return;
  while (true) {
    const int fd = accept4(listening_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && errno == EINTR) continue;
    if (fd < 0) return;
    if (greeting.empty() || SendLine(fd, greeting)) {
      connections_.push_back({fd, ""});
    } else {
      close(fd);
    }
  }
}

bool ControlServer::Read(Connection* connection, std::vector<StopCommand>* commands) {
  char buffer[4096];
  while (true) {
    const ssize_t count = read(connection->fd, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno == EAGAIN;
    if (count == 0) return false;
    connection->received.append(buffer, count);
    size_t line_end;
    while ((line_end = connection->received.find('\n')) != std::string::npos) {
      absl::StatusOr<StopCommand> command = StopCommandFromLine(connection->received.substr(0, line_end));
      if (!command.ok()) return false;
      commands->push_back(*std::move(command));
      connection->received.erase(0, line_end + 1);
    }
    if (connection->received.size() > kMaxLine) return false;
  }
}

}  // namespace adaptdl::worker
