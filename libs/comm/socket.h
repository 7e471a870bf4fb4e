// TCP sockets with deadlines. Nothing here raises SIGPIPE. Inside libs/comm only.

#ifndef ADAPTDL_LIBS_COMM_SOCKET_H_
#define ADAPTDL_LIBS_COMM_SOCKET_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace adaptdl::comm {

// Owns a file descriptor; closes it at the end.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd);
  ~Socket() { Close(); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;

  bool open() const { return fd_ >= 0; }
  int fd() const { return fd_; }
  void Close();

 private:
  int fd_ = -1;
};

// For a child that a process with sockets has forked and that goes on in the same program: closes its copies of
// them, which would keep the parent's connections open when that is gone. The child's objects must not be used any
// more.
void CloseSocketsOfParent();

// What an errno means.
std::string ErrorText(int error);

// Listens on all interfaces; `port` 0: any free one.
absl::StatusOr<Socket> Listen(int port);

// Listens on the interface of `host` (a name or an address of this machine), on any free port.
absl::StatusOr<Socket> ListenAt(const std::string& host);

// The port that `socket` is bound to.
absl::StatusOr<int> PortOf(const Socket& socket);

// Tries again until somebody answers, the deadline has passed (UNAVAILABLE), or `wake_fd` can be read
// (CANCELLED; negative: never). Only looking up the host's name cannot be ended.
absl::StatusOr<Socket> ConnectTo(const std::string& host, int port, absl::Time deadline, int wake_fd = -1);

// Empty when nobody is waiting.
Socket Accept(const Socket& listener);

// Waits until `fd` or `wake_fd` (negative: none) can be read; false when the deadline has passed.
bool AwaitReadable(int fd, absl::Time deadline, int wake_fd = -1);

// Sends all of `bytes` (blocks until the deadline where the peer reads slowly).
absl::Status SendAll(const Socket& socket, absl::string_view bytes, absl::Time deadline);

// Appends what has come to `*bytes` without waiting. False when the connection is at its end.
bool ReceiveSome(const Socket& socket, std::string* bytes);

}  // namespace adaptdl::comm

#endif  // ADAPTDL_LIBS_COMM_SOCKET_H_
