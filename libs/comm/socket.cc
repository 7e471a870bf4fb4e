#include "libs/comm/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libs/base/clock.h"

namespace adaptdl::comm {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(2);
constexpr absl::Duration kLongestPause = absl::Milliseconds(50);

int PollTimeout(absl::Time deadline) {
  const absl::Duration left = std::clamp(deadline - SteadyNow(), absl::ZeroDuration(), absl::Hours(1));
  return static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
}

// Whether one of `events` came on `fd`, or `wake_fd` could be read, before the deadline.
bool Await(int fd, short events, absl::Time deadline, int wake_fd = -1) {
  for (;;) {
    pollfd entries[] = {{fd, events, 0}, {wake_fd, POLLIN, 0}};
    const int ready = poll(entries, 2, PollTimeout(deadline));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (SteadyNow() >= deadline) return false;
  }
}

bool Woken(int wake_fd) { return wake_fd >= 0 && Await(wake_fd, POLLIN, absl::InfinitePast()); }

void SetNoDelay(int fd) {
  const int yes = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

// One attempt. Empty, and a reason in `*error`, on failure.
Socket TryConnect(const addrinfo& address, absl::Time deadline, int wake_fd, std::string* error) {
  Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (connect(socket.fd(), address.ai_addr, address.ai_addrlen) != 0 && errno != EINPROGRESS) {
    *error = ErrorText(errno);
    return {};
  }
  int failure = ETIMEDOUT;
  socklen_t length = sizeof(failure);
  if (Await(socket.fd(), POLLOUT, deadline, wake_fd) && !Woken(wake_fd)) {
    (void)getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &failure, &length);
  }
  if (failure != 0) {
    *error = ErrorText(failure);
    return {};
  }
  SetNoDelay(socket.fd());
  return socket;
}

// Which file descriptors of this process are sockets of ours. A forked child asks, in which any lock may be held by
// a thread that is not there: so there is none. What is beyond the table stays open in children.
constexpr int kMostKnown = 1 << 16;

std::array<std::atomic<bool>, kMostKnown>& OwnSockets() {
  static auto* const own = new std::array<std::atomic<bool>, kMostKnown>();
  return *own;
}

void NoteOwn(int fd, bool own) {
  if (fd >= 0 && fd < kMostKnown) OwnSockets()[static_cast<size_t>(fd)] = own;
}

}  // namespace

void CloseSocketsOfParent() {
  for (int fd = 0; fd < kMostKnown; ++fd) {
    if (OwnSockets()[static_cast<size_t>(fd)].exchange(false)) close(fd);
  }
}

Socket::Socket(int fd) : fd_(fd) { NoteOwn(fd_, true); }

std::string ErrorText(int error) { return std::generic_category().message(error); }

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Socket::Close() {
  NoteOwn(fd_, false);
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

absl::StatusOr<Socket> Listen(int port) {
  // IPv6 sockets take IPv4 too; without IPv6 in the kernel, plain IPv4.
  Socket socket(::socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const bool v6 = socket.open();
  if (!v6) socket = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int yes = 1;
  const int no = 0;
  (void)setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (v6) (void)setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(static_cast<uint16_t>(port));
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  any4.sin_port = htons(static_cast<uint16_t>(port));
  const auto* address = v6 ? reinterpret_cast<sockaddr*>(&any6) : reinterpret_cast<sockaddr*>(&any4);
  if (bind(socket.fd(), address, v6 ? sizeof(any6) : sizeof(any4)) != 0 ||
      listen(socket.fd(), SOMAXCONN) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on port ", port, ": ", ErrorText(errno)));
  }
  return socket;
}

absl::StatusOr<Socket> ListenAt(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  std::string error = "no address";
  if (const int failed = getaddrinfo(host.c_str(), "0", &hints, &found); failed != 0)
    error = gai_strerror(failed);
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    Socket socket(::socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (socket.open() && bind(socket.fd(), address->ai_addr, address->ai_addrlen) == 0 &&
        listen(socket.fd(), SOMAXCONN) == 0) {
      return socket;
    }
    error = ErrorText(errno);
  }
  return absl::UnavailableError(absl::StrCat("cannot listen at ", host, ": ", error));
}

absl::StatusOr<int> PortOf(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return absl::InternalError(absl::StrCat("cannot read a socket's port: ", ErrorText(errno)));
  }
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

absl::StatusOr<Socket> ConnectTo(const std::string& host, int port, absl::Time deadline, int wake_fd) {
  std::string error = "the time is up";
  absl::Duration pause = kFirstPause;
  for (;;) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int failed = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
        failed != 0) {
      error = gai_strerror(failed);
    }
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
    for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
      Socket socket = TryConnect(*address, deadline, wake_fd, &error);
      if (socket.open()) return socket;
    }
    if (SteadyNow() + pause >= deadline) {
      return absl::UnavailableError(absl::StrCat("cannot connect to ", host, ":", port, ": ", error));
    }
    // Rank 0 may start later than the others.
    (void)Await(-1, 0, SteadyNow() + pause, wake_fd);
    if (Woken(wake_fd)) {
      return absl::CancelledError(absl::StrCat("connecting to ", host, ":", port, " was given up"));
    }
    pause = std::min(2 * pause, kLongestPause);
  }
}

Socket Accept(const Socket& listener) {
  Socket socket(accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.open()) SetNoDelay(socket.fd());
  return socket;
}

bool AwaitReadable(int fd, absl::Time deadline, int wake_fd) { return Await(fd, POLLIN, deadline, wake_fd); }

absl::Status SendAll(const Socket& socket, absl::string_view bytes, absl::Time deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!Await(socket.fd(), POLLOUT, deadline))
        return absl::DeadlineExceededError("the peer does not read");
    } else if (errno != EINTR) {
      return absl::UnavailableError(ErrorText(errno));
    }
  }
  return absl::OkStatus();
}

bool ReceiveSome(const Socket& socket, std::string* bytes) {
  char piece[16384];
  for (;;) {
    const ssize_t got = recv(socket.fd(), piece, sizeof(piece), MSG_DONTWAIT);
    if (got > 0) {
      bytes->append(piece, static_cast<size_t>(got));
    } else if (got == 0) {
      return false;
    } else if (errno == EAGAIN) {
      return true;
    } else if (errno != EINTR) {
      return false;
    }
  }
}

}  // namespace adaptdl::comm
