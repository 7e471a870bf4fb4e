#include "libs/service/keep_alive.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace adaptdl::service {
namespace {

// Questions within the patience.
constexpr int kProbes = 2;

int PortOf(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return -1;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port);
  return -1;
}

bool Listens(int descriptor) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  return getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0;
}

// gRPC does not show its sockets: they are looked for among what this process has open.
std::vector<int> ListenersAt(int port) {
  std::vector<int> listeners;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    int descriptor = -1;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &descriptor)) continue;
    if (Listens(descriptor) && PortOf(descriptor) == port) listeners.push_back(descriptor);
  }
  return listeners;
}

bool Set(int socket, int level, int option, int64_t value) {
  const int number = static_cast<int>(value);
  return setsockopt(socket, level, option, &number, sizeof(number)) == 0;
}

}  // namespace

absl::Status KeepClientsAlive(int port, const KeepAliveOptions& options) {
  const std::vector<int> listeners = ListenersAt(port);
  if (listeners.empty()) return absl::NotFoundError(absl::StrCat("nothing listens at port ", port));
  for (const int listener : listeners) {
    // Connections that are accepted have what the listener has.
    const bool set =
        Set(listener, IPPROTO_TCP, TCP_KEEPIDLE, absl::ToInt64Seconds(options.idle)) &&
        Set(listener, IPPROTO_TCP, TCP_KEEPINTVL, absl::ToInt64Seconds(options.patience) / kProbes) &&
        Set(listener, IPPROTO_TCP, TCP_KEEPCNT, kProbes) &&
        Set(listener, IPPROTO_TCP, TCP_USER_TIMEOUT, absl::ToInt64Milliseconds(options.patience)) &&
        Set(listener, SOL_SOCKET, SO_KEEPALIVE, 1);
    if (!set) return absl::ErrnoToStatus(errno, absl::StrCat("keep-alive of port ", port));
  }
  return absl::OkStatus();
}

}  // namespace adaptdl::service
