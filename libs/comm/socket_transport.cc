#include "libs/comm/socket_transport.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/clock.h"
#include "libs/base/random_id.h"
#include "libs/comm/socket.h"

namespace adaptdl::comm {
namespace {

// In front of each message. Members run on machines of one kind, which agree on the order of bytes.
struct MessageHeader {
  uint64_t slot = 0;
  uint64_t bytes = 0;
};

constexpr int kSecretBytes = 16;
constexpr size_t kSecretDigits = 2 * kSecretBytes;

// What whoever connects says first.
struct Hello {
  char secret[kSecretDigits] = {};
  uint32_t rank = 0;
};

// Read at once, so that a small message costs one call. What is left of larger ones goes straight to its place.
constexpr size_t kReadAhead = 32 << 10;
// Strangers that may be at the door beside the members.
constexpr size_t kMostStrangers = 64;

std::string HostName() {
  char name[256] = "";
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "localhost";
}

// Takes as long wherever they differ.
bool SameSecret(const char* a, const std::string& b) {
  unsigned char different = 0;
  for (size_t i = 0; i < kSecretDigits; ++i) different |= static_cast<unsigned char>(a[i] ^ b[i]);
  return different == 0;
}

struct Address {
  std::string host;
  int port = 0;
  std::string secret;
};

std::string ToText(const Address& address) {
  return absl::StrCat(address.secret, address.port, ":", address.host);
}

std::optional<Address> ParseAddress(absl::string_view text) {
  Address address;
  const size_t colon = text.find(':');
  if (text.size() < kSecretDigits || colon == absl::string_view::npos || colon < kSecretDigits) return {};
  address.secret = std::string(text.substr(0, kSecretDigits));
  address.host = std::string(text.substr(colon + 1));
  if (!absl::SimpleAtoi(text.substr(kSecretDigits, colon - kSecretDigits), &address.port)) return {};
  return address;
}

class SocketRegion;

// A message that is being sent or received.
struct Transfer {
  SocketRegion* region = nullptr;
  MessageHeader header;
  char* data = nullptr;
  // Of header and data together.
  size_t done = 0;
};

// To one peer.
struct Connection {
  Socket socket;
  std::deque<Transfer> sends;
  // In the order in which they were asked for.
  std::list<Transfer> receives;
  // What was read and belongs to no message yet lies from `ahead_begin` to `ahead_end`.
  std::vector<char> ahead = std::vector<char>(kReadAhead);
  size_t ahead_begin = 0;
  size_t ahead_end = 0;
  // The message whose data is coming.
  std::optional<Transfer> coming;
  // Why nothing goes this way any more. Empty: it does.
  std::string error;

  bool usable() const { return socket.open() && error.empty(); }
  size_t ahead_bytes() const { return ahead_end - ahead_begin; }
};

class SocketTransport;

class SocketRegion final : public Transport::Region {
 public:
  SocketRegion(SocketTransport* transport, void* data, size_t bytes)
      : transport_(transport), data_(static_cast<char*>(data)), bytes_(bytes) {}
  ~SocketRegion() override;

  Transport::Result Send(int peer, uint64_t slot, size_t offset, size_t bytes) override;
  Transport::Result Receive(int peer, uint64_t slot, size_t offset, size_t bytes) override;
  Transport::Result WaitSend() override { return Await(&sent_); }
  Transport::Result WaitReceive() override { return Await(&received_); }
  void Abort() override;
  std::string error() const override { return error_; }

  void Sent() { ++sent_; }
  void Received() { ++received_; }
  void Break(const std::string& error) {
    if (error_.empty()) error_ = error;
  }

 private:
  Transport::Result Await(int64_t* done);
  // Whether they lie within the region; else it is broken.
  bool Holds(size_t offset, size_t bytes);

  SocketTransport* const transport_;
  char* const data_;
  const size_t bytes_;
  std::atomic<bool> aborted_ = false;
  // Messages that are done and were not waited for.
  int64_t sent_ = 0;
  int64_t received_ = 0;
  std::string error_;
};

class SocketTransport final : public Transport {
 public:
  SocketTransport(const TransportOptions& options, Socket listener, Address address)
      : rank_(options.rank),
        timeout_(absl::Milliseconds(options.timeout_ms)),
        wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        listener_(std::move(listener)),
        address_(std::move(address)),
        connections_(options.size) {}

  std::string address() const override { return ToText(address_); }

  Result Connect(int peer, const std::string& its_address, std::string* error) override {
    if (deadline_ == absl::InfiniteFuture()) deadline_ = SteadyNow() + timeout_;
    // Members of lower rank visit those of higher rank.
    const absl::Status status = rank_ < peer ? Visit(peer, its_address) : AwaitVisitor(peer);
    if (closed_) return Result::kAborted;
    if (status.ok()) return Result::kDone;
    *error = std::string(status.message());
    return Result::kBroken;
  }

  void Close() override {
    closed_ = true;
    Wake();
  }

  std::unique_ptr<Region> Map(void* data, size_t bytes) override {
    return std::make_unique<SocketRegion>(this, data, bytes);
  }

  // Of a region.
  Result Send(int peer, const Transfer& transfer) {
    Connection& connection = connections_[peer];
    if (!connection.usable()) return Broken(connection, transfer.region);
    connection.sends.push_back(transfer);
    if (connection.sends.size() == 1) Write(&connection);
    return Result::kDone;
  }

  Result Receive(int peer, const Transfer& transfer) {
    Connection& connection = connections_[peer];
    // What came before the connection ended is still there.
    if (!connection.usable() && connection.ahead_bytes() == 0) return Broken(connection, transfer.region);
    connection.receives.push_back(transfer);
    Deliver(&connection);
    if (!connection.usable()) Fail(&connection, connection.error);  // the rest will not come
    return Result::kDone;
  }

  // Ends the wait that goes on, or the next one.
  void Wake() {
    const uint64_t one = 1;
    (void)!write(wake_.fd(), &one, sizeof(one));
  }

  // Moves something, or waits until something can be moved, or Wake().
  void Progress() {
    polled_.assign(1, {wake_.fd(), POLLIN, 0});
    polled_peers_.assign(1, -1);
    for (size_t peer = 0; peer < connections_.size(); ++peer) {
      const Connection& connection = connections_[peer];
      const bool reads = Reads(connection);
      if (!connection.usable() || (!reads && connection.sends.empty())) continue;
      const int events = (reads ? POLLIN : 0) | (connection.sends.empty() ? 0 : POLLOUT);
      polled_.push_back({connection.socket.fd(), static_cast<short>(events), 0});
      polled_peers_.push_back(static_cast<int>(peer));
    }
    if (poll(polled_.data(), polled_.size(), -1) <= 0) return;
    if (polled_[0].revents != 0) {
      uint64_t count = 0;
      (void)!read(wake_.fd(), &count, sizeof(count));
    }
    for (size_t i = 1; i < polled_.size(); ++i) {
      Connection& connection = connections_[polled_peers_[i]];
      if ((polled_[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && Reads(connection)) Read(&connection);
      if ((polled_[i].revents & (POLLOUT | POLLHUP | POLLERR)) != 0 && !connection.sends.empty()) {
        Write(&connection);
      }
    }
  }

  // The region's memory is not touched any more.
  void Forget(const SocketRegion* region) {
    for (Connection& connection : connections_) {
      const auto of_region = [region](const Transfer& transfer) { return transfer.region == region; };
      // The peer would take what follows for the rest of it.
      const bool cut = (!connection.sends.empty() && of_region(connection.sends.front()) &&
                        connection.sends.front().done > 0) ||
                       (connection.coming.has_value() && of_region(*connection.coming));
      if (cut) Fail(&connection, "a message was given up half-way");
      connection.receives.remove_if(of_region);
      connection.sends.erase(std::remove_if(connection.sends.begin(), connection.sends.end(), of_region),
                             connection.sends.end());
    }
  }

 private:
  // Somebody at the door, and what it has said.
  struct Visitor {
    Socket socket;
    std::string said;
  };

  static Result Broken(const Connection& connection, SocketRegion* region) {
    region->Break(connection.error.empty() ? "not connected" : connection.error);
    return Result::kBroken;
  }

  // Whether what comes next has a place to go to.
  static bool Reads(const Connection& connection) {
    if (!connection.usable()) return false;
    if (connection.coming.has_value()) return true;
    // The header of a message that nobody asked for yet: it waits, and all behind it.
    return connection.ahead_bytes() < sizeof(MessageHeader) && !connection.receives.empty();
  }

  absl::Status Visit(int peer, const std::string& its_address) {
    const std::optional<Address> address = ParseAddress(its_address);
    if (!address.has_value()) return absl::InvalidArgumentError("it has given no address");
    absl::StatusOr<Socket> socket = ConnectTo(address->host, address->port, deadline_, wake_.fd());
    if (!socket.ok()) return socket.status();
    Hello hello;
    std::memcpy(hello.secret, address->secret.data(), kSecretDigits);
    hello.rank = static_cast<uint32_t>(rank_);
    absl::Status sent =
        SendAll(*socket, absl::string_view(reinterpret_cast<const char*>(&hello), sizeof(hello)), deadline_);
    connections_[peer].socket = *std::move(socket);
    return sent;
  }

  absl::Status AwaitVisitor(int peer) {
    while (!connections_[peer].socket.open()) {
      if (closed_) return absl::CancelledError("closed");
      if (SteadyNow() >= deadline_) return absl::DeadlineExceededError("it has not connected in time");
      std::vector<pollfd> polled = {{wake_.fd(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
      for (const Visitor& visitor : visitors_) polled.push_back({visitor.socket.fd(), POLLIN, 0});
      const absl::Duration left = std::clamp(deadline_ - SteadyNow(), absl::ZeroDuration(), absl::Hours(1));
      (void)poll(polled.data(), polled.size(), static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
      visitors_.remove_if([this](Visitor& visitor) { return Listen(&visitor); });
      while (true) {
        Socket socket = Accept(listener_);
        if (!socket.open()) break;
        Visitor visitor{std::move(socket), ""};
        if (Listen(&visitor)) continue;
        visitors_.push_back(std::move(visitor));
        // The oldest ones have had the most time.
        if (visitors_.size() > connections_.size() + kMostStrangers) visitors_.pop_front();
      }
    }
    return absl::OkStatus();
  }

  // Hears what the visitor says. Whether it is at the door no longer.
  bool Listen(Visitor* visitor) {
    while (visitor->said.size() < sizeof(Hello)) {
      char bytes[sizeof(Hello)];
      const ssize_t got =
          recv(visitor->socket.fd(), bytes, sizeof(Hello) - visitor->said.size(), MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return false;
      if (got <= 0) return true;
      visitor->said.append(bytes, static_cast<size_t>(got));
    }
    Hello hello;
    std::memcpy(&hello, visitor->said.data(), sizeof(hello));
    const bool member = SameSecret(hello.secret, address_.secret) && hello.rank < connections_.size() &&
                        static_cast<int>(hello.rank) < rank_ && !connections_[hello.rank].socket.open();
    if (member) connections_[hello.rank].socket = std::move(visitor->socket);
    return true;
  }

  // Sends what goes without waiting.
  void Write(Connection* connection) {
    while (!connection->sends.empty()) {
      Transfer& transfer = connection->sends.front();
      const size_t total = sizeof(MessageHeader) + transfer.header.bytes;
      const size_t header_left =
          transfer.done < sizeof(MessageHeader) ? sizeof(MessageHeader) - transfer.done : 0;
      const size_t data_done = transfer.done - (sizeof(MessageHeader) - header_left);
      iovec parts[] = {
          {reinterpret_cast<char*>(&transfer.header) + sizeof(MessageHeader) - header_left, header_left},
          {transfer.data + data_done, transfer.header.bytes - data_done}};
      msghdr message{};
      message.msg_iov = parts;
      message.msg_iovlen = 2;
      const ssize_t sent = sendmsg(connection->socket.fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno == EAGAIN) return;
      // What has come from the peer is still to be read: only what is sent is lost.
      if (sent < 0) return FailSends(connection, ErrorText(errno));
      transfer.done += static_cast<size_t>(sent);
      if (transfer.done < total) continue;
      transfer.region->Sent();
      connection->sends.pop_front();
    }
  }

  // Takes what is there.
  void Read(Connection* connection) {
    // A peer that sends without end must not keep us from the others: one turn.
    ssize_t got = 0;
    if (connection->coming.has_value()) {
      Transfer& transfer = *connection->coming;
      got = recv(connection->socket.fd(), transfer.data + transfer.done,
                 transfer.header.bytes - transfer.done, MSG_DONTWAIT);
      if (got > 0) {
        transfer.done += static_cast<size_t>(got);
        if (transfer.done == transfer.header.bytes) Complete(connection);
      }
    } else {
      // Less than a header: see Reads().
      std::memmove(connection->ahead.data(), connection->ahead.data() + connection->ahead_begin,
                   connection->ahead_bytes());
      connection->ahead_end -= std::exchange(connection->ahead_begin, 0);
      got = recv(connection->socket.fd(), connection->ahead.data() + connection->ahead_end,
                 kReadAhead - connection->ahead_end, MSG_DONTWAIT);
      if (got > 0) connection->ahead_end += static_cast<size_t>(got);
      Deliver(connection);
    }
    if (got == 0) Fail(connection, "the peer has closed the connection");
    if (got < 0 && errno != EAGAIN && errno != EINTR) Fail(connection, ErrorText(errno));
  }

  // Hands what was read ahead to the receives that it is for.
  void Deliver(Connection* connection) {
    while (!connection->coming.has_value() && connection->ahead_bytes() >= sizeof(MessageHeader)) {
      MessageHeader header;
      std::memcpy(&header, connection->ahead.data() + connection->ahead_begin, sizeof(header));
      const auto receive =
          std::find_if(connection->receives.begin(), connection->receives.end(),
                       [&](const Transfer& transfer) { return transfer.header.slot == header.slot; });
      if (receive == connection->receives.end()) return;
      if (header.bytes > receive->header.bytes) {
        return Fail(connection, absl::StrCat("a message of ", header.bytes, " bytes came where at most ",
                                             receive->header.bytes, " were expected"));
      }
      connection->ahead_begin += sizeof(header);
      connection->coming = *receive;
      connection->coming->header.bytes = header.bytes;
      connection->receives.erase(receive);
      Transfer& transfer = *connection->coming;
      transfer.done = std::min<size_t>(header.bytes, connection->ahead_bytes());
      if (transfer.done > 0) {
        std::memcpy(transfer.data, connection->ahead.data() + connection->ahead_begin, transfer.done);
      }
      connection->ahead_begin += transfer.done;
      if (transfer.done == header.bytes) Complete(connection);
    }
  }

  static void Complete(Connection* connection) {
    connection->coming->region->Received();
    connection->coming.reset();
  }

  static void FailSends(Connection* connection, const std::string& error) {
    for (const Transfer& transfer : connection->sends) transfer.region->Break(error);
    connection->sends.clear();
  }

  // Nothing goes this way any more.
  static void Fail(Connection* connection, const std::string& error) {
    if (connection->error.empty()) connection->error = error;
    FailSends(connection, error);
    for (const Transfer& transfer : connection->receives) transfer.region->Break(error);
    connection->receives.clear();
    if (connection->coming.has_value()) connection->coming->region->Break(error);
    connection->coming.reset();
    connection->socket.Close();
  }

  const int rank_;
  // Of all Connect() together, and when it ends: it begins with the first of them.
  const absl::Duration timeout_;
  absl::Time deadline_ = absl::InfiniteFuture();
  const Socket wake_;
  const Socket listener_;
  const Address address_;
  std::atomic<bool> closed_ = false;
  std::list<Visitor> visitors_;
  std::vector<Connection> connections_;  // by rank; that to itself is not used
  // Of Progress(), kept for their memory.
  std::vector<pollfd> polled_;
  std::vector<int> polled_peers_;
};

SocketRegion::~SocketRegion() { transport_->Forget(this); }

bool SocketRegion::Holds(size_t offset, size_t bytes) {
  if (offset <= bytes_ && bytes <= bytes_ - offset) return true;
  Break("a message lies outside of its region");
  return false;
}

Transport::Result SocketRegion::Send(int peer, uint64_t slot, size_t offset, size_t bytes) {
  if (!Holds(offset, bytes)) return Transport::Result::kBroken;
  return transport_->Send(peer, {this, {slot, bytes}, data_ + offset, 0});
}

Transport::Result SocketRegion::Receive(int peer, uint64_t slot, size_t offset, size_t bytes) {
  if (!Holds(offset, bytes)) return Transport::Result::kBroken;
  return transport_->Receive(peer, {this, {slot, bytes}, data_ + offset, 0});
}

void SocketRegion::Abort() {
  aborted_ = true;
  transport_->Wake();
}

Transport::Result SocketRegion::Await(int64_t* done) {
  while (true) {
    if (*done > 0) {
      --*done;
      return Transport::Result::kDone;
    }
    if (aborted_) return Transport::Result::kAborted;
    if (!error_.empty()) return Transport::Result::kBroken;
    transport_->Progress();
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> CreateSocketTransport(const TransportOptions& options) {
  Address address;
  address.host = options.host.empty() ? HostName() : options.host;
  absl::StatusOr<Socket> listener = ListenAt(address.host);
  if (!listener.ok()) return listener.status();
  const absl::StatusOr<int> port = PortOf(*listener);
  if (!port.ok()) return port.status();
  address.port = *port;
  address.secret = RandomHex(kSecretBytes);
  return std::make_unique<SocketTransport>(options, *std::move(listener), std::move(address));
}

}  // namespace adaptdl::comm
