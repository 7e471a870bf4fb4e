#include "services/worker/netperf/netperf.h"

#include <endian.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace adaptdl::netperf {
namespace {

// Of a single send or receive: a stranger who says nothing keeps nobody longer.
constexpr int kPatienceSeconds = 5;
constexpr int kRoundTrips = 100;
constexpr int kRounds = 5;
// A message takes about so long, so that a round is more than the start of a connection, and slow links take no minutes.
constexpr absl::Duration kRoundTime = absl::Milliseconds(300);
constexpr int64_t kSmallestMessage = int64_t{1} << 18;
constexpr int64_t kLargestMessage = int64_t{1} << 30;
constexpr size_t kBufferSize = size_t{1} << 18;
constexpr char kDone = '!';

absl::Status SocketError(absl::string_view what) {
  const int error = errno == EAGAIN ? ETIMEDOUT : errno;
  return absl::UnavailableError(absl::StrCat(what, ": ", strerror(error)));
}

void Prepare(int fd) {
  const int on = 1;
  const timeval patience = {.tv_sec = kPatienceSeconds, .tv_usec = 0};
  // Where these are refused the measurement is worse, and the process has its own bound.
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

absl::Status Send(int fd, const char* bytes, size_t size) {
  for (size_t sent = 0; sent < size;) {
    const ssize_t count = send(fd, bytes + sent, size - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SocketError("sending");
    sent += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

// OUT_OF_RANGE: the connection has ended.
absl::Status Receive(int fd, char* bytes, size_t size) {
  for (size_t received = 0; received < size;) {
    const ssize_t count = recv(fd, bytes + received, size - received, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SocketError("receiving");
    if (count == 0) return absl::OutOfRangeError("the other side has hung up");
    received += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

// A message is its size, in eight bytes, and so many bytes; the answer is one byte.
absl::Status SendMessage(int fd, const std::string& buffer, int64_t size) {
  const uint64_t header = htobe64(static_cast<uint64_t>(size));
  const char* const header_bytes = reinterpret_cast<const char*>(&header);  // NOLINT: as they travel
  if (absl::Status status = Send(fd, header_bytes, sizeof(header)); !status.ok()) return status;
  for (int64_t left = size; left > 0;) {
    const auto piece = static_cast<size_t>(std::min<int64_t>(left, static_cast<int64_t>(buffer.size())));
    if (absl::Status status = Send(fd, buffer.data(), piece); !status.ok()) return status;
    left -= static_cast<int64_t>(piece);
  }
  char answer = 0;
  return Receive(fd, &answer, 1);
}

absl::Status AnswerMessage(int fd, std::string* buffer) {
  uint64_t header = 0;
  char* const header_bytes = reinterpret_cast<char*>(&header);  // NOLINT: as they travel
  if (absl::Status status = Receive(fd, header_bytes, sizeof(header)); !status.ok()) return status;
  const uint64_t size = be64toh(header);
  if (size > static_cast<uint64_t>(kLargestMessage)) return absl::InvalidArgumentError("too long a message");
  for (uint64_t left = size; left > 0;) {
    const size_t piece = std::min<uint64_t>(left, buffer->size());
    if (absl::Status status = Receive(fd, buffer->data(), piece); !status.ok()) return status;
    left -= piece;
  }
  return Send(fd, &kDone, 1);
}

absl::StatusOr<UniqueFd> Connect(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (error != 0) return absl::UnavailableError(absl::StrCat("host ", host, ": ", gai_strerror(error)));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  absl::Status last;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    UniqueFd socket_fd(socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket_fd.valid()) {
      Prepare(socket_fd.get());
      if (connect(socket_fd.get(), address->ai_addr, address->ai_addrlen) == 0) return socket_fd;
      // What a connect() that took longer than its bound says.
      if (errno == EINPROGRESS) errno = ETIMEDOUT;
    }
    last = SocketError(absl::StrCat("connecting to ", host, ":", port));
  }
  return last;
}

absl::StatusOr<double> SecondsOf(int fd, const std::string& buffer, int64_t size, const Clock& clock) {
  const absl::Time start = clock.Steady();
  if (absl::Status status = SendMessage(fd, buffer, size); !status.ok()) return status;
  // A clock may be coarser than a round.
  return std::max(absl::ToDoubleSeconds(clock.Steady() - start), 1e-9);
}

// Grows until a message takes long enough, which also lets TCP find the link's speed.
absl::StatusOr<int64_t> FindMessageSize(int fd, const std::string& buffer, const Clock& clock) {
  for (int64_t size = kSmallestMessage;; size *= 4) {
    const absl::StatusOr<double> seconds = SecondsOf(fd, buffer, size, clock);
    if (!seconds.ok()) return seconds.status();
    const double enough = absl::ToDoubleSeconds(kRoundTime);
    if (*seconds * 4 >= enough || size * 4 > kLargestMessage) {
      const double wanted = static_cast<double>(size) * enough / *seconds;
      return static_cast<int64_t>(
          std::clamp(wanted, static_cast<double>(kSmallestMessage), static_cast<double>(kLargestMessage)));
    }
  }
}

}  // namespace

absl::StatusOr<Listener> Listen() {
  Listener listener{.socket = UniqueFd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0))};
  sockaddr_in6 any = {};
  any.sin6_family = AF_INET6;
  auto* address = reinterpret_cast<sockaddr*>(&any);  // NOLINT: as sockets want it
  socklen_t size = sizeof(any);
  const int only_v6 = 0;
  if (listener.socket.valid()) {
    setsockopt(listener.socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, sizeof(only_v6));
  } else {
    // A machine without IPv6. The port is at the same place in both kinds of addresses.
    listener.socket.Reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    any.sin6_family = AF_INET;
    size = sizeof(sockaddr_in);
  }
  const int fd = listener.socket.get();
  if (fd < 0 || bind(fd, address, size) != 0 || listen(fd, 4) != 0 || getsockname(fd, address, &size) != 0) {
    return SocketError("listening");
  }
  listener.port = ntohs(any.sin6_port);
  return listener;
}

absl::Status Serve(const Listener& listener, absl::string_view token) {
  std::string buffer(kBufferSize, '\0');
  for (;;) {
    const UniqueFd caller(accept4(listener.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!caller.valid() && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (!caller.valid()) return SocketError("accepting");
    Prepare(caller.get());
    std::string shown(kTokenSize, '\0');
    if (!Receive(caller.get(), shown.data(), shown.size()).ok() || shown != token) continue;
    absl::Status status;
    while (status.ok()) status = AnswerMessage(caller.get(), &buffer);
    return absl::IsOutOfRange(status) ? absl::OkStatus() : status;
  }
}

absl::StatusOr<Measurement> Measure(const std::string& host, int port, absl::string_view token,
                                    const Clock& clock) {
  const absl::StatusOr<UniqueFd> server = Connect(host, port);
  if (!server.ok()) return server.status();
  const int fd = server->get();
  if (absl::Status status = Send(fd, token.data(), token.size()); !status.ok()) return status;
  const std::string buffer(kBufferSize, 'x');
  Measurement measurement;
  // The first one is the connection's start, and not counted.
  for (int round = 0; round <= kRoundTrips; ++round) {
    const absl::StatusOr<double> seconds = SecondsOf(fd, buffer, 0, clock);
    if (!seconds.ok()) return seconds.status();
    if (round > 0) measurement.round_trip_seconds.push_back(*seconds);
  }
  const absl::StatusOr<int64_t> size = FindMessageSize(fd, buffer, clock);
  if (!size.ok()) return size.status();
  for (int round = 0; round < kRounds; ++round) {
    const absl::StatusOr<double> seconds = SecondsOf(fd, buffer, *size, clock);
    if (!seconds.ok()) return seconds.status();
    measurement.bytes_per_second.push_back(static_cast<double>(*size) / *seconds);
  }
  return measurement;
}

std::string PortLine(int port) { return nlohmann::json{{"port", port}}.dump(); }

std::string MeasurementLine(const Measurement& measurement) {
  return nlohmann::json{{"roundTripSeconds", measurement.round_trip_seconds},
                        {"bytesPerSecond", measurement.bytes_per_second}}
      .dump();
}

std::string ErrorLine(const absl::Status& status) {
  return nlohmann::json{{"error", status.message()}}.dump(-1, ' ', false,
                                                          nlohmann::json::error_handler_t::replace);
}

}  // namespace adaptdl::netperf
