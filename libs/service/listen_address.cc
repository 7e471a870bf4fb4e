#include "libs/service/listen_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace adaptdl::service {
namespace {

// Calls `use` with a socket for each address that the name stands for, until it returns false. What the
// resolver complains about, or empty.
std::string ForEachSocket(const ListenAddress& address,
                          const std::function<bool(int fd, const addrinfo&)>& use) {
  absl::string_view host = address.host;
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int result =
      getaddrinfo(std::string(host).c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (result != 0) return gai_strerror(result);
  bool more = true;
  for (const addrinfo* entry = found; entry != nullptr && more; entry = entry->ai_next) {
    const int fd = socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) continue;
    more = use(fd, *entry);
    close(fd);
  }
  freeaddrinfo(found);
  return "";
}

// Why the address can't be bound; empty if it can.
std::string BindFailure(const ListenAddress& address) {
  std::string failure;
  const std::string resolution = ForEachSocket(address, [&failure](int fd, const addrinfo& entry) {
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, entry.ai_addr, entry.ai_addrlen) != 0 || listen(fd, 1) != 0) failure = std::strerror(errno);
    return failure.empty();
  });
  return resolution.empty() ? failure : resolution;
}

}  // namespace

absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view flag, absl::string_view text) {
  const size_t colon = text.rfind(':');
  ListenAddress address;
  const bool complete = colon != absl::string_view::npos && colon > 0;
  const absl::string_view host = complete ? text.substr(0, colon) : "";
  // An IPv6 address without brackets would be cut at its last group.
  const bool bare_ipv6 = host.find(':') != absl::string_view::npos && host.front() != '[';
  if (!complete || bare_ipv6 || !absl::SimpleAtoi(text.substr(colon + 1), &address.port) ||
      address.port < 0 || address.port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        flag, " \"", text,
        "\" is no address: write host:port, for example 127.0.0.1:7100, 0.0.0.0:0 or [::1]:7100"));
  }
  address.host = std::string(host);
  return address;
}

bool IsLoopback(const ListenAddress& address) {
  in_addr ipv4{};
  if (inet_pton(AF_INET, address.host.c_str(), &ipv4) == 1) return (ntohl(ipv4.s_addr) >> 24) == 127;
  return address.host == "localhost" || address.host == "[::1]";
}

absl::Status ListenError(absl::string_view flag, const ListenAddress& address) {
  const std::string failure = BindFailure(address);
  return absl::UnavailableError(absl::StrCat("cannot listen on ", address.host, ":", address.port, ": ",
                                             failure.empty() ? "refused by the system" : failure,
                                             "; free it or choose another with ", flag));
}

void Knock(const ListenAddress& address) {
  ForEachSocket(address, [](int fd, const addrinfo& entry) {
    // Begun is enough: the system completes it without us.
    return connect(fd, entry.ai_addr, entry.ai_addrlen) != 0 && errno != EINPROGRESS;
  });
}

}  // namespace adaptdl::service
